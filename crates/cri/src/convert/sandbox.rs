use model::{
    NamespaceMode, PortMapping, Protocol, SandboxSpec, SandboxState, SandboxStatus, SandboxSummary, Timestamp,
};

use super::labels::{self, to_hash_map};
use super::{MissingField, resources, security};
use crate::{list_calls, v1};

pub(crate) fn config(spec: &SandboxSpec) -> v1::PodSandboxConfig {
    v1::PodSandboxConfig {
        metadata: Some(v1::PodSandboxMetadata {
            name: spec.name.clone(),
            uid: spec.uid.clone(),
            namespace: spec.namespace.clone(),
            attempt: spec.attempt,
        }),
        hostname: spec.hostname.clone(),
        log_directory: spec.log_directory.clone(),
        dns_config: spec.dns.as_ref().map(|dns| v1::DnsConfig {
            servers: dns.servers.clone(),
            searches: dns.searches.clone(),
            options: dns.options.clone(),
        }),
        port_mappings: spec.port_mappings.iter().map(port_mapping).collect(),
        labels: to_hash_map(&spec.labels),
        annotations: to_hash_map(&spec.annotations),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: spec.cgroup_parent.clone(),
            security_context: Some(security::sandbox_context(&spec.security)),
            sysctls: to_hash_map(&spec.sysctls),
            overhead: spec.overhead.as_ref().map(resources::to_cri),
            resources: spec.resources.as_ref().map(resources::to_cri),
        }),
        windows: None,
    }
}

/// Returns `None` for a sandbox that does not belong to a pod.
pub(crate) fn summary(item: &list_calls::Sandbox) -> Option<SandboxSummary> {
    let (pod_uid, pod_name, pod_namespace) = labels::pod_identity(&item.labels)?;
    Some(SandboxSummary {
        id: labels::text(&item.id).as_ref().into(),
        pod_uid,
        pod_name,
        pod_namespace,
        attempt: item.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        state: state(item.state()),
        created_at: Timestamp::from_nanos(item.created_at),
    })
}

pub(crate) fn status(status: v1::PodSandboxStatus) -> Result<SandboxStatus, MissingField> {
    if status.id.is_empty() {
        return Err(MissingField("a sandbox status without an id"));
    }
    let state = state(status.state());
    let metadata = status.metadata.ok_or(MissingField("a sandbox status without metadata"))?;
    let addresses = |network: v1::PodSandboxNetworkStatus| {
        let additional = network.additional_ips.into_iter().map(|pod_ip| pod_ip.ip);
        [network.ip].into_iter().chain(additional).filter(|ip| !ip.is_empty()).collect()
    };
    let namespaces =
        status.linux.and_then(|linux| linux.namespaces).and_then(|namespaces| namespaces.options);
    Ok(SandboxStatus {
        id: status.id.into(),
        attempt: metadata.attempt,
        state,
        created_at: Timestamp::from_nanos(status.created_at),
        ips: status.network.map(addresses),
        network: namespaces.map_or(NamespaceMode::Pod, |options| {
            security::namespace_mode(options.network(), &options.target_id)
        }),
        runtime_handler: status.runtime_handler,
    })
}

fn state(state: v1::PodSandboxState) -> SandboxState {
    match state {
        v1::PodSandboxState::SandboxReady => SandboxState::Ready,
        v1::PodSandboxState::SandboxNotready => SandboxState::NotReady,
    }
}

fn port_mapping(mapping: &PortMapping) -> v1::PortMapping {
    let protocol = match mapping.protocol {
        Protocol::Tcp => v1::Protocol::Tcp,
        Protocol::Udp => v1::Protocol::Udp,
        Protocol::Sctp => v1::Protocol::Sctp,
    };
    v1::PortMapping {
        protocol: protocol.into(),
        container_port: mapping.container_port,
        host_port: mapping.host_port,
        host_ip: mapping.host_ip.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::labels::{POD_NAME, POD_NAMESPACE, POD_UID};
    use model::{DnsConfig, LinuxResources};

    #[test]
    fn converts_sandbox_spec() {
        let sent = config(&SandboxSpec {
            name: "web".into(),
            namespace: "shop".into(),
            uid: "u1".into(),
            attempt: 3,
            hostname: "web-0".into(),
            log_directory: "/var/log/pods/x".into(),
            dns: Some(DnsConfig { searches: vec!["svc".into()], ..Default::default() }),
            port_mappings: vec![PortMapping {
                protocol: Protocol::Udp,
                container_port: 53,
                host_port: 5353,
                host_ip: "127.0.0.1".into(),
            }],
            cgroup_parent: "/kubepods/pod1".into(),
            sysctls: [("net.a".to_owned(), "1".to_owned())].into(),
            resources: Some(LinuxResources { cpu_shares: 2, ..Default::default() }),
            overhead: Some(LinuxResources { cpu_shares: 9, ..Default::default() }),
            ..Default::default()
        });
        let metadata = sent.metadata.unwrap();
        assert_eq!((metadata.name.as_str(), metadata.namespace.as_str()), ("web", "shop"));
        assert_eq!((metadata.uid.as_str(), metadata.attempt), ("u1", 3));
        assert_eq!(sent.dns_config.unwrap().searches, ["svc"]);
        let port = &sent.port_mappings[0];
        assert_eq!((port.protocol(), port.container_port, port.host_port), (v1::Protocol::Udp, 53, 5353));
        let linux = sent.linux.unwrap();
        assert_eq!(linux.cgroup_parent, "/kubepods/pod1");
        assert_eq!(linux.sysctls["net.a"], "1");
        assert_eq!((linux.resources.unwrap().cpu_shares, linux.overhead.unwrap().cpu_shares), (2, 9));
    }

    #[test]
    fn lists_omit_sandboxes_without_pod_labels() {
        assert_eq!(summary(&list_calls::Sandbox { id: "x".into(), ..Default::default() }), None);
        let labels = [(POD_UID, "u"), (POD_NAME, "web"), (POD_NAMESPACE, "shop")];
        let ours = summary(&list_calls::Sandbox {
            id: "x".into(),
            state: 1,
            labels: labels
                .map(|(key, value)| list_calls::Label { key: key.into(), value: value.into() })
                .to_vec(),
            created_at: 7,
            ..Default::default()
        });
        let ours = ours.unwrap();
        assert_eq!(
            (ours.pod_uid.as_str(), ours.pod_name.as_str(), ours.pod_namespace.as_str()),
            ("u", "web", "shop")
        );
        assert_eq!((ours.state, ours.created_at), (SandboxState::NotReady, Timestamp::from_nanos(7)));
    }

    #[test]
    fn converts_addresses_primary_first() {
        let mut reported = v1::PodSandboxStatus {
            id: "x".into(),
            metadata: Some(v1::PodSandboxMetadata::default()),
            network: Some(v1::PodSandboxNetworkStatus {
                ip: "10.0.0.1".into(),
                additional_ips: vec![v1::PodIp { ip: "fd00::1".into() }],
            }),
            ..Default::default()
        };
        assert_eq!(status(reported.clone()).unwrap().ips.unwrap(), ["10.0.0.1", "fd00::1"]);
        reported.network = Some(v1::PodSandboxNetworkStatus::default());
        assert!(status(reported.clone()).unwrap().lacks_address());
        reported.network = None;
        assert_eq!(status(reported).unwrap().ips, None);
    }

    #[test]
    fn rejects_status_without_id_or_metadata() {
        assert!(status(v1::PodSandboxStatus::default()).is_err());
        assert!(status(v1::PodSandboxStatus { id: "x".into(), ..Default::default() }).is_err());
    }
}
