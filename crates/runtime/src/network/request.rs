//! Requests for pod networks, and their results.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use values::quantity::Quantity;

use super::errors::NetworkFailure;

/// The network of one pod sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodNetworkRequest {
    pub sandbox_id: String,
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub annotations: HashMap<String, String>,
    /// The pin of the pod's network namespace. It may no longer exist at tear-down.
    pub netns: PathBuf,
    pub port_mappings: Vec<PortMapping>,
    /// For CNI plugins with the capability `cgroupPath`.
    pub cgroup_parent: String,
    /// For CNI plugins with the capability `dns`.
    pub dns: PodDns,
}

impl PodNetworkRequest {
    /// The pod as users know it.
    pub(super) fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDns {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// A port of the pod; reachable through the node if `host_port` is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortMapping {
    pub protocol: PortProtocol,
    pub container_port: u16,
    pub host_port: u16,
    /// `None`: all addresses of the node.
    pub host_ip: Option<IpAddr>,
}

impl PortMapping {
    /// The address of the node that this mapping is limited to: `0.0.0.0` and `::` limit only the family.
    #[must_use]
    pub fn specific_host_ip(&self) -> Option<IpAddr> {
        self.host_ip.filter(|address| !address.is_unspecified())
    }

    /// Whether the mapping applies to this family.
    #[must_use]
    pub fn has_family(&self, is_v6: bool) -> bool {
        self.host_ip.is_none_or(|address| address.is_ipv6() == is_v6)
    }

    /// Whether a packet to the node could match both mappings.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let same_port = self.protocol == other.protocol && self.host_port == other.host_port;
        let common_family = [false, true].iter().any(|v6| self.has_family(*v6) && other.has_family(*v6));
        let same_address = match (self.specific_host_ip(), other.specific_host_ip()) {
            (Some(one), Some(two)) => one == two,
            (None, _) | (_, None) => true,
        };
        same_port && common_family && same_address
    }

    pub(super) fn host_side(&self) -> String {
        match self.host_ip {
            Some(IpAddr::V6(address)) => format!("[{address}]:{}/{}", self.host_port, self.protocol),
            Some(IpAddr::V4(address)) => format!("{address}:{}/{}", self.host_port, self.protocol),
            None => format!("{}/{}", self.host_port, self.protocol),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortProtocol {
    Tcp,
    Udp,
    Sctp,
}

impl PortProtocol {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The number in IP packets.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The addresses of a pod, at least one. The first is the pod's IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddresses {
    pub primary: IpAddr,
    pub additional: Vec<IpAddr>,
}

impl PodAddresses {
    /// IPv4 first, as containerd orders them by default. `None` without addresses.
    #[must_use]
    pub fn from_list(addresses: &[IpAddr]) -> Option<Self> {
        let primary = *addresses.iter().find(|address| address.is_ipv4()).or_else(|| addresses.first())?;
        let additional = addresses.iter().copied().filter(|address| *address != primary).collect();
        Some(Self { primary, additional })
    }
}

/// A sandbox that still exists when the process starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAttachment {
    pub sandbox_id: String,
}

/// Bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// To the pod.
    pub ingress: Option<u64>,
    /// From the pod.
    pub egress: Option<u64>,
}

impl Bandwidth {
    pub(super) fn from_annotations(annotations: &HashMap<String, String>) -> Result<Self, NetworkFailure> {
        let rate = |name: &'static str| annotations.get(name).map(|value| rate(name, value)).transpose();
        Ok(Self {
            ingress: rate("kubernetes.io/ingress-bandwidth")?,
            egress: rate("kubernetes.io/egress-bandwidth")?,
        })
    }
}

/// Upstream's limits: 1k to 1P.
fn rate(field: &'static str, value: &str) -> Result<u64, NetworkFailure> {
    const MIN: i64 = 1_000;
    const MAX: i64 = 1_000_000_000_000_000;
    let invalid = |reason| NetworkFailure::Invalid { field, value: value.to_owned(), reason };
    let quantity: Quantity = value.parse().map_err(|_| invalid("not a quantity"))?;
    match quantity.value() {
        ..MIN => Err(invalid("unreasonably small (less than 1 kbit/s)")),
        MIN..=MAX => u64::try_from(quantity.value()).map_err(|_| invalid("not a quantity")),
        _ => Err(invalid("unreasonably large (more than 1 Pbit/s)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(host_ip: &str) -> PortMapping {
        let host_ip = host_ip.parse().ok();
        PortMapping { protocol: PortProtocol::Tcp, container_port: 80, host_port: 8080, host_ip }
    }

    #[test]
    fn host_ports_conflict_when_one_packet_matches_both() {
        let cases = [
            ("", "", true),
            ("", "10.0.0.1", true),
            ("0.0.0.0", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("0.0.0.0", "::", false),
            ("", "::", true),
            ("::", "fd00::1", true),
            ("127.0.0.1", "::1", false),
        ];
        for (one, two, expected) in cases {
            assert_eq!(port(one).conflicts_with(&port(two)), expected, "{one:?} and {two:?}");
            assert_eq!(port(two).conflicts_with(&port(one)), expected, "{two:?} and {one:?}");
        }
        let udp = PortMapping { protocol: PortProtocol::Udp, ..port("") };
        assert!(!udp.conflicts_with(&port("")));
    }

    #[test]
    fn orders_ipv4_before_ipv6() {
        let list: Vec<IpAddr> =
            ["fd00::5", "10.0.0.5", "10.0.0.6"].map(|text| text.parse().unwrap()).to_vec();
        let addresses = PodAddresses::from_list(&list).unwrap();
        assert_eq!(addresses.primary, list[1]);
        assert_eq!(addresses.additional, [list[0], list[2]]);
        assert_eq!(PodAddresses::from_list(&[]), None);
    }

    #[test]
    fn reads_bandwidth_annotations() {
        let read = |value: &str| {
            let annotations =
                HashMap::from([("kubernetes.io/egress-bandwidth".to_owned(), value.to_owned())]);
            Bandwidth::from_annotations(&annotations).map_err(|error| error.to_string())
        };
        assert_eq!(read("10M"), Ok(Bandwidth { ingress: None, egress: Some(10_000_000) }));
        assert!(read("999").unwrap_err().contains("unreasonably small"));
        assert!(read("2P").unwrap_err().contains("unreasonably large"));
        assert!(read("fast").unwrap_err().contains("not a quantity"));
    }
}
