//! Which addresses the node is reached at.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::NodeAddress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{AddressSight, CloudProvider, NodeProfile};

/// Tells a cloud controller which addresses the node was given.
const PROVIDED: &str = "alpha.kubernetes.io/provided-node-ip";

/// The addresses in `--node-ip`, and the parts of it that are none.
///
/// # Errors
/// When they are more than one of each family, or a pair names no address.
pub fn parse_node_ips(text: &str) -> Result<(Vec<IpAddr>, Vec<String>), String> {
    let (mut found, mut wrong) = (Vec::<IpAddr>::new(), Vec::new());
    for part in text.split(',').map(str::trim) {
        match part.parse() {
            Ok(ip) => found.push(ip),
            Err(_) => wrong.push(part.to_owned()),
        }
    }
    match found.as_slice() {
        [] | [_] => Ok((found, wrong)),
        [one, other] if one.is_ipv4() == other.is_ipv4() => Err(NO_PAIR.to_owned()),
        [one, other] if one.is_unspecified() || other.is_unspecified() => {
            Err("dual-stack node IP cannot include '0.0.0.0' or '::'".to_owned())
        }
        [_, _] => Ok((found, wrong)),
        [..] => Err(NO_PAIR.to_owned()),
    }
}

const NO_PAIR: &str = "must contain either a single IP or a dual-stack pair of IPs";

/// The addresses that the status should have; `None` leaves what is `known`.
#[must_use]
pub fn node_addresses(
    profile: &NodeProfile,
    sight: &AddressSight,
    known: Option<&[NodeAddress]>,
) -> Option<Vec<NodeAddress>> {
    let given = given(profile);
    if !given.iter().all(|ip| is_own(*ip, sight)) {
        return None;
    }
    if profile.cloud == CloudProvider::External {
        if known.is_some_and(|known| !known.is_empty()) {
            return None;
        }
        if profile.node_ips.is_empty() {
            return Some(vec![address("Hostname", profile.name.clone())]);
        }
    }
    let internal = match given.as_slice() {
        [] => vec![found(profile, sight)?],
        given => given.to_vec(),
    };
    let internal = internal.into_iter().map(|ip| address("InternalIP", ip.to_string()));
    Some(internal.chain([address("Hostname", profile.name.clone())]).collect())
}

/// Sets or removes the hint for the cloud controller.
pub(super) fn annotate(metadata: &mut ObjectMeta, profile: &NodeProfile, sight: &AddressSight) {
    let given = given(profile);
    if !given.iter().all(|ip| is_own(*ip, sight)) {
        return;
    }
    if profile.cloud == CloudProvider::External && !given.is_empty() {
        let value = given.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
        metadata.annotations.get_or_insert_default().insert(PROVIDED.to_owned(), value);
    } else if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(PROVIDED);
    }
}

/// The addresses that were given; the unspecified one only chooses a family.
fn given(profile: &NodeProfile) -> Vec<IpAddr> {
    profile.node_ips.iter().copied().filter(|ip| !ip.is_unspecified()).collect()
}

/// The host name if it is an address, else what it resolves to, else the source of the default route.
fn found(profile: &NodeProfile, sight: &AddressSight) -> Option<IpAddr> {
    if let Ok(ip) = profile.name.parse() {
        return Some(ip);
    }
    let prefers_v4 = profile.node_ips.first().is_none_or(IpAddr::is_ipv4);
    let choose = |candidates: &[IpAddr]| {
        let preferred = candidates.iter().find(|ip| ip.is_ipv4() == prefers_v4);
        preferred.or(candidates.first()).copied()
    };
    let by_name: Vec<IpAddr> = sight.by_name.iter().copied().filter(|ip| is_own(*ip, sight)).collect();
    choose(&by_name).or_else(|| choose(&sight.default_routes))
}

/// Whether others can reach this machine at the address.
fn is_own(ip: IpAddr, sight: &AddressSight) -> bool {
    let link_local = match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let usable = !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified() && !link_local;
    usable && sight.interfaces.contains(&ip)
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

    fn sight() -> AddressSight {
        AddressSight {
            interfaces: ips(&["127.0.0.1", "192.0.2.7", "192.0.2.8", "2001:db8::7", "169.254.1.1"]),
            by_name: ips(&["127.0.0.1"]),
            default_routes: ips(&["192.0.2.7", "2001:db8::7"]),
        }
    }

    fn told(node_ips: &[&str], cloud: CloudProvider, known: Option<&[NodeAddress]>) -> Option<Vec<String>> {
        let profile =
            NodeProfile { name: "n".into(), node_ips: ips(node_ips), cloud, ..NodeProfile::default() };
        let found = node_addresses(&profile, &sight(), known)?;
        Some(found.into_iter().map(|found| format!("{} {}", found.type_, found.address)).collect())
    }

    #[test]
    fn addresses_are_given_or_found() {
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
        for (given, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(told(given, none, None), Some(expected), "{given:?}");
        }
        for not_ours in ["192.0.2.99", "127.0.0.1", "169.254.1.1"] {
            assert_eq!(told(&[not_ours], none, None), None, "{not_ours}");
        }
    }

    #[test]
    fn the_name_counts_before_the_default_route() {
        let profile = NodeProfile { name: "n".into(), ..NodeProfile::default() };
        let sight = AddressSight { by_name: ips(&["198.51.100.1", "2001:db8::7", "192.0.2.8"]), ..sight() };
        assert_eq!(node_addresses(&profile, &sight, None).unwrap()[0].address, "192.0.2.8");
        let named_by_address = NodeProfile { name: "203.0.113.5".into(), ..profile };
        assert_eq!(node_addresses(&named_by_address, &sight, None).unwrap()[0].address, "203.0.113.5");
    }

    #[test]
    fn a_cloud_controller_has_the_last_word() {
        let external = CloudProvider::External;
        assert_eq!(told(&[], external, None), Some(vec!["Hostname n".to_owned()]));
        assert_eq!(told(&["192.0.2.8"], external, None).unwrap()[0], "InternalIP 192.0.2.8");
        let known = [address("ExternalIP", "203.0.113.1".into())];
        assert_eq!(told(&["192.0.2.8"], external, Some(&known)), None);
    }

    #[test]
    fn the_hint_comes_and_goes() {
        let mut metadata = ObjectMeta::default();
        let mut profile = NodeProfile {
            node_ips: ips(&["192.0.2.8", "2001:db8::7"]),
            cloud: CloudProvider::External,
            ..NodeProfile::default()
        };
        annotate(&mut metadata, &profile, &sight());
        assert_eq!(metadata.annotations.as_ref().unwrap()[PROVIDED], "192.0.2.8,2001:db8::7");
        profile.cloud = CloudProvider::None;
        annotate(&mut metadata, &profile, &sight());
        assert!(metadata.annotations.unwrap().is_empty());
    }

    #[test]
    fn node_ips_are_one_or_a_pair() {
        assert_eq!(parse_node_ips("192.0.2.8, x").unwrap(), (ips(&["192.0.2.8"]), vec!["x".to_owned()]));
        assert_eq!(parse_node_ips("192.0.2.8,2001:db8::7").unwrap().0.len(), 2);
        for wrong in ["192.0.2.8,192.0.2.7", "192.0.2.8,::", "192.0.2.8,2001:db8::7,192.0.2.7"] {
            assert!(parse_node_ips(wrong).is_err(), "{wrong}");
        }
    }
}
