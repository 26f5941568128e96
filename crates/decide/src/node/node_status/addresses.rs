//! Addresses of the Node.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::NodeAddress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{CloudProvider, NodeAddressInputs, NodeProfile};

/// Annotation that passes `--node-ip` to the cloud controller manager.
const PROVIDED_IP_ANNOTATION: &str = "alpha.kubernetes.io/provided-node-ip";

/// Parses `--node-ip`; also returns the parts that are not addresses.
///
/// # Errors
/// When there is more than one address per family, or a pair contains an unspecified address.
pub fn parse_node_ips(text: &str) -> Result<(Vec<IpAddr>, Vec<String>), String> {
    let (mut valid, mut invalid) = (Vec::<IpAddr>::new(), Vec::new());
    for part in text.split(',').map(str::trim) {
        match part.parse() {
            Ok(ip) => valid.push(ip),
            Err(_) => invalid.push(part.to_owned()),
        }
    }
    match valid.as_slice() {
        [] | [_] => Ok((valid, invalid)),
        [one, other] if one.is_ipv4() == other.is_ipv4() => Err(NOT_A_PAIR.to_owned()),
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            Err("dual-stack node IP cannot include '0.0.0.0' or '::'".to_owned())
        }
        [_, _] => Ok((valid, invalid)),
        [..] => Err(NOT_A_PAIR.to_owned()),
    }
}

const NOT_A_PAIR: &str = "must contain either a single IP or a dual-stack pair of IPs";

/// The desired addresses; `None` keeps the current ones.
pub fn node_addresses(
    profile: &NodeProfile,
    inputs: &NodeAddressInputs,
    current: Option<&[NodeAddress]>,
) -> Option<Vec<NodeAddress>> {
    let configured = configured(profile);
    if !configured.iter().all(|ip| is_own(*ip, inputs)) {
        return None;
    }
    if profile.cloud == CloudProvider::External {
        if current.is_some_and(|current| !current.is_empty()) {
            return None;
        }
        if profile.node_ips.is_empty() {
            return Some(vec![address("Hostname", profile.name.clone())]);
        }
    }
    let internal = match configured.as_slice() {
        [] => vec![detect_address(profile, inputs)?],
        configured => configured.to_vec(),
    };
    let internal = internal.into_iter().map(|ip| address("InternalIP", ip.to_string()));
    Some(internal.chain([address("Hostname", profile.name.clone())]).collect())
}

/// Sets or removes the annotation for the cloud controller manager.
pub(super) fn annotate(metadata: &mut ObjectMeta, profile: &NodeProfile, inputs: &NodeAddressInputs) {
    let configured = configured(profile);
    if !configured.iter().all(|ip| is_own(*ip, inputs)) {
        return;
    }
    if profile.cloud == CloudProvider::External && !configured.is_empty() {
        let value = configured.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        metadata.annotations.get_or_insert_default().insert(PROVIDED_IP_ANNOTATION.to_owned(), value);
    } else if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(PROVIDED_IP_ANNOTATION);
    }
}

/// The configured addresses without unspecified ones, which only select a family.
fn configured(profile: &NodeProfile) -> Vec<IpAddr> {
    profile.node_ips.iter().copied().filter(|ip| !ip.is_unspecified()).collect()
}

/// The node name if it is an address, else an address it resolves to, else the source address of the default route.
fn detect_address(profile: &NodeProfile, inputs: &NodeAddressInputs) -> Option<IpAddr> {
    if let Ok(ip) = profile.name.parse() {
        return Some(ip);
    }
    let prefers_v4 = profile.node_ips.first().is_none_or(IpAddr::is_ipv4);
    let choose = |candidates: &[IpAddr]| {
        let preferred = candidates.iter().find(|ip| ip.is_ipv4() == prefers_v4);
        preferred.or(candidates.first()).copied()
    };
    let by_name: Vec<IpAddr> = inputs.by_name.iter().copied().filter(|ip| is_own(*ip, inputs)).collect();
    choose(&by_name).or_else(|| choose(&inputs.default_routes))
}

/// Whether the address belongs to an interface and is reachable from other hosts.
fn is_own(ip: IpAddr, inputs: &NodeAddressInputs) -> bool {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let usable = !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified() && !link_local;
    usable && inputs.interfaces.contains(&ip)
}

fn address(type_: &str, address: String) -> NodeAddress {
    NodeAddress { type_: type_.to_owned(), address }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn inputs() -> NodeAddressInputs {
        NodeAddressInputs {
            interfaces: ips(&["127.0.0.1", "192.0.2.7", "192.0.2.8", "2001:db8::7", "169.254.1.1"]),
            by_name: ips(&["127.0.0.1"]),
            default_routes: ips(&["192.0.2.7", "2001:db8::7"]),
        }
    }

    fn resolved_addresses(
        node_ips: &[&str],
        cloud: CloudProvider,
        current: Option<&[NodeAddress]>,
    ) -> Option<Vec<String>> {
        let profile =
            NodeProfile { name: "n".into(), node_ips: ips(node_ips), cloud, ..NodeProfile::default() };
        let addresses = node_addresses(&profile, &inputs(), current)?;
        Some(addresses.into_iter().map(|one| format!("{} {}", one.type_, one.address)).collect())
    }

    #[test]
    fn uses_configured_or_detected_addresses() {
        let none = CloudProvider::None;
        let cases: [(&[&str], &[&str]); 5] = [
            (&[], &["InternalIP 192.0.2.7", "Hostname n"]),
            (&["192.0.2.8"], &["InternalIP 192.0.2.8", "Hostname n"]),
            (&["0.0.0.0"], &["InternalIP 192.0.2.7", "Hostname n"]),
            (&["::"], &["InternalIP 2001:db8::7", "Hostname n"]),
            (
                &["2001:db8::7", "192.0.2.8"],
                &["InternalIP 2001:db8::7", "InternalIP 192.0.2.8", "Hostname n"],
            ),
        ];
        for (configured, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(resolved_addresses(configured, none, None), Some(expected), "{configured:?}");
        }
        for not_ours in ["192.0.2.99", "127.0.0.1", "169.254.1.1"] {
            assert_eq!(resolved_addresses(&[not_ours], none, None), None, "{not_ours}");
        }
    }

    #[test]
    fn prefers_node_name_over_default_route() {
        let profile = NodeProfile { name: "n".into(), ..NodeProfile::default() };
        let inputs =
            NodeAddressInputs { by_name: ips(&["198.51.100.1", "2001:db8::7", "192.0.2.8"]), ..inputs() };
        assert_eq!(node_addresses(&profile, &inputs, None).unwrap()[0].address, "192.0.2.8");
        let named_by_address = NodeProfile { name: "203.0.113.5".into(), ..profile };
        assert_eq!(node_addresses(&named_by_address, &inputs, None).unwrap()[0].address, "203.0.113.5");
    }

    #[test]
    fn keeps_addresses_of_cloud_controller() {
        let external = CloudProvider::External;
        assert_eq!(resolved_addresses(&[], external, None), Some(vec!["Hostname n".to_owned()]));
        assert_eq!(resolved_addresses(&["192.0.2.8"], external, None).unwrap()[0], "InternalIP 192.0.2.8");
        let current = [address("ExternalIP", "203.0.113.1".into())];
        assert_eq!(resolved_addresses(&["192.0.2.8"], external, Some(&current)), None);
    }

    #[test]
    fn sets_and_removes_provided_ip_annotation() {
        let mut metadata = ObjectMeta::default();
        let mut profile = NodeProfile {
            node_ips: ips(&["192.0.2.8", "2001:db8::7"]),
            cloud: CloudProvider::External,
            ..NodeProfile::default()
        };
        annotate(&mut metadata, &profile, &inputs());
        assert_eq!(metadata.annotations.as_ref().unwrap()[PROVIDED_IP_ANNOTATION], "192.0.2.8,2001:db8::7");
        profile.cloud = CloudProvider::None;
        annotate(&mut metadata, &profile, &inputs());
        assert!(metadata.annotations.unwrap().is_empty());
    }

    #[test]
    fn parses_single_or_dual_stack_node_ip() {
        assert_eq!(parse_node_ips("192.0.2.8, x").unwrap(), (ips(&["192.0.2.8"]), vec!["x".to_owned()]));
        assert_eq!(parse_node_ips("192.0.2.8,2001:db8::7").unwrap().0.len(), 2);
        for invalid in ["192.0.2.8,192.0.2.7", "192.0.2.8,::", "192.0.2.8,2001:db8::7,192.0.2.7"] {
            assert!(parse_node_ips(invalid).is_err(), "{invalid}");
        }
    }
}
