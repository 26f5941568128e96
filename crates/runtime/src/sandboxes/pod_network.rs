//! The network of a sandbox: what this runtime asks of the pod networks.

use std::net::IpAddr;

use cri::v1::Protocol;

use super::NamespaceFiles;
use crate::errors::ServiceError;
use crate::network::{
    Cidr, LiveAttachment, NetworkSettings, PodDns, PodNetworkRequest, PodNetworks, PortMapping, PortProtocol,
};
use crate::records::SandboxRecord;

/// How pods are connected.
pub(crate) enum PodNetworking {
    /// Pods have their loopback interface only.
    LoopbackOnly,
    Networks(PodNetworks),
}

impl PodNetworking {
    /// Reads the records of earlier processes.
    pub(crate) fn open(settings: Option<NetworkSettings>) -> Result<Self, ServiceError> {
        let Some(settings) = settings else { return Ok(Self::LoopbackOnly) };
        PodNetworks::open(settings).map(Self::Networks).map_err(failed("open the pod networks"))
    }

    /// Connects a sandbox; returns its addresses, the preferred one first.
    pub(crate) async fn set_up(&self, record: &SandboxRecord) -> Result<Vec<String>, ServiceError> {
        let Self::Networks(networks) = self else { return Ok(Vec::new()) };
        let addresses = networks.set_up(&request(record)?).await;
        let addresses = addresses.map_err(failed("connect the sandbox"))?;
        let all = std::iter::once(addresses.primary).chain(addresses.additional);
        Ok(all.map(|address| address.to_string()).collect())
    }

    /// Disconnects a sandbox. Does nothing if it is not connected.
    pub(crate) async fn tear_down(&self, record: &SandboxRecord) -> Result<(), ServiceError> {
        let Self::Networks(networks) = self else { return Ok(()) };
        networks.tear_down(&request(record)?).await.map_err(failed("disconnect the sandbox"))
    }

    /// Removes what sandboxes that no longer exist have left.
    pub(crate) async fn recover(&self, live: &[LiveAttachment]) -> Result<(), ServiceError> {
        let Self::Networks(networks) = self else { return Ok(()) };
        networks.recover(live).await.map_err(failed("clean up the pod networks"))
    }

    /// Removes what sandboxes share, unless one of them uses it.
    pub(crate) async fn remove_unused(&self) -> Result<(), ServiceError> {
        let Self::Networks(networks) = self else { return Ok(()) };
        networks.remove_unused().await.map_err(failed("remove the pod networks"))
    }

    /// Why pods cannot have addresses.
    pub(crate) async fn readiness(&self) -> Result<(), String> {
        match self {
            Self::LoopbackOnly => Err("pods have no network in this process".to_owned()),
            Self::Networks(networks) => networks.readiness().await,
        }
    }

    /// Takes the ranges of pod addresses: a list with commas.
    pub(crate) async fn set_pod_cidrs(&self, list: &str) -> Result<(), ServiceError> {
        let Self::Networks(networks) = self else { return Ok(()) };
        let mut ranges = Vec::new();
        for text in list.split(',') {
            let range = text.trim().parse::<Cidr>();
            let problem =
                || ServiceError::setting("pod_cidr", format!("{text:?} is not a range of addresses"));
            ranges.push(range.map_err(|_| problem())?);
        }
        networks.set_pod_cidrs(ranges).await.map_err(failed("set the ranges of pod addresses"))
    }
}

fn failed<E: std::error::Error + Send + Sync + 'static>(
    operation: &'static str,
) -> impl FnOnce(E) -> ServiceError {
    move |source| ServiceError::Network { operation, source: Box::new(source) }
}

/// Network settings of a sandbox.
fn request(record: &SandboxRecord) -> Result<PodNetworkRequest, ServiceError> {
    let config = &record.config;
    let metadata = config.metadata.clone().unwrap_or_default();
    let dns = config.dns_config.clone().unwrap_or_default();
    Ok(PodNetworkRequest {
        sandbox_id: record.id.clone(),
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        annotations: config.annotations.clone(),
        netns: NamespaceFiles::in_folder(&record.folder).network(),
        port_mappings: config.port_mappings.iter().map(port_mapping).collect::<Result<_, _>>()?,
        cgroup_parent: config.linux.as_ref().map(|linux| linux.cgroup_parent.clone()).unwrap_or_default(),
        dns: PodDns { servers: dns.servers, searches: dns.searches, options: dns.options },
    })
}

fn port_mapping(mapping: &cri::v1::PortMapping) -> Result<PortMapping, ServiceError> {
    let problem = |text: String| ServiceError::setting("port_mappings", text);
    let port = |port: i32| u16::try_from(port).map_err(|_| problem(format!("{port} is not a port")));
    let protocol = match Protocol::try_from(mapping.protocol) {
        Ok(Protocol::Tcp) => PortProtocol::Tcp,
        Ok(Protocol::Udp) => PortProtocol::Udp,
        Ok(Protocol::Sctp) => PortProtocol::Sctp,
        Err(_) => return Err(problem(format!("unknown protocol {}", mapping.protocol))),
    };
    let host_ip = match mapping.host_ip.as_str() {
        "" => None,
        text => Some(text.parse::<IpAddr>().map_err(|_| problem(format!("{text:?} is not an address")))?),
    };
    Ok(PortMapping {
        protocol,
        container_port: port(mapping.container_port)?,
        host_port: port(mapping.host_port)?,
        host_ip,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_mappings_are_checked() {
        let mapping = |host_port, host_ip: &str, protocol| cri::v1::PortMapping {
            protocol,
            container_port: 80,
            host_port,
            host_ip: host_ip.to_owned(),
        };
        let read = port_mapping(&mapping(8080, "127.0.0.1", 1)).unwrap();
        assert_eq!((read.protocol, read.host_port), (PortProtocol::Udp, 8080));
        for wrong in [mapping(70_000, "", 0), mapping(-1, "", 0), mapping(1, "web", 0), mapping(1, "", 9)] {
            assert!(port_mapping(&wrong).is_err(), "{wrong:?}");
        }
    }
}
