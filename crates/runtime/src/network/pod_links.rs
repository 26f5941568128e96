//! The pair of links that connects a pod to the bridge.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;

use values::fnv::Fnv64a;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::namespaces::write_network_setting;
use super::request::Bandwidth;
use super::reservations::gateway;
use super::route_socket::{Link, LinkEvents, MAX_LINK_NAME, NewPair, RouteSocket};

/// The link inside a pod.
pub(super) const POD_LINK: &str = "eth0";
/// Begins the names of the ports of pods; the rest is a hash of the sandbox's id.
const PORT_PREFIX: &str = "pw";
const PORT_HASH_DIGITS: usize = MAX_LINK_NAME - PORT_PREFIX.len();

/// The name of a sandbox's port on the bridge. It follows from the id, so that the port is found without a record.
pub(super) fn port_name(sandbox_id: &str) -> String {
    let hash = format!("{:016x}", Fnv64a::hash(sandbox_id.as_bytes()));
    format!("{PORT_PREFIX}{}", hash.get(..PORT_HASH_DIGITS).unwrap_or(&hash))
}

pub(super) fn is_port_name(name: &str) -> bool {
    let hash = name.strip_prefix(PORT_PREFIX);
    hash.is_some_and(|hash| {
        hash.len() == PORT_HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Follows from the address: others on the bridge that remember an earlier pod with this address stay right.
fn hardware_address(addresses: &[Cidr]) -> [u8; 6] {
    let first = addresses.iter().find(|cidr| !cidr.is_v6()).or_else(|| addresses.first());
    let octets = first.map(|cidr| super::route_socket::octets(cidr.address())).unwrap_or_default();
    let last = octets.last_chunk().copied().unwrap_or([0; 4]);
    let [a, b, c, d] = last;
    [0x0a, 0x58, a, b, c, d]
}

/// Creates the pair, without bringing it up.
pub(super) fn create_pair(
    port: &str,
    bridge: &Link,
    mtu: Option<u32>,
    namespace: &File,
    addresses: &[Cidr],
) -> Result<(), NetworkFailure> {
    let mac_inside = hardware_address(addresses);
    let pair = NewPair { name: port, bridge, mtu, namespace, name_inside: POD_LINK, mac_inside };
    RouteSocket::open()?.create_pair(pair)
}

/// Configures the end inside the pod; runs in the pod's namespace.
pub(super) fn configure_inside(addresses: &[Cidr], bandwidth: Bandwidth) -> Result<(), NetworkFailure> {
    let mut socket = RouteSocket::open()?;
    socket.bring_up_loopback()?;
    let missing = || NetworkFailure::LinkDown(POD_LINK.to_owned());
    let link = socket.link(POD_LINK)?.ok_or_else(missing)?;
    write_inside_settings(addresses.iter().any(|cidr| cidr.is_v6()))?;
    addresses.iter().try_for_each(|address| socket.add_address(&link, *address))?;
    if let Some(rate) = bandwidth.egress {
        socket.limit_bandwidth(&link, rate)?;
    }
    socket.set_link(link.index, |_| {}).map_err(|error| NetworkFailure::Os {
        operation: "bring up",
        subject: POD_LINK.to_owned(),
        errno: error.errno,
    })?;
    let gateways = addresses.iter().filter_map(|range| gateway(*range));
    gateways.map(Cidr::address).try_for_each(|address: IpAddr| socket.add_default_route(&link, address))
}

fn write_inside_settings(has_v6: bool) -> Result<(), NetworkFailure> {
    let of_link = |family: &str, name: &str| format!("{family}/conf/{POD_LINK}/{name}");
    write_network_setting(&of_link("ipv4", "arp_notify"), "1")?;
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return Ok(());
    }
    // In hairpin mode, the check for duplicate addresses would see its own question.
    write_network_setting(&of_link("ipv6", "accept_dad"), "0")?;
    write_network_setting(&of_link("ipv6", "ndisc_notify"), "1")?;
    write_network_setting(&of_link("ipv6", "keep_addr_on_down"), "1")?;
    if has_v6 {
        write_network_setting("ipv6/conf/lo/disable_ipv6", "0")?;
        write_network_setting(&of_link("ipv6", "disable_ipv6"), "0")?;
    }
    Ok(())
}

/// Enables the end on the bridge, and waits until it transmits.
pub(super) fn enable_port(port: &str, pod: &str, bandwidth: Bandwidth) -> Result<(), NetworkFailure> {
    let mut socket = RouteSocket::open()?;
    let missing = || NetworkFailure::LinkDown(port.to_owned());
    let link = socket.link(port)?.ok_or_else(missing)?;
    if let Some(rate) = bandwidth.ingress {
        socket.limit_bandwidth(&link, rate)?;
    }
    let mut events = LinkEvents::subscribe()?;
    socket.enable_port(&link, pod)?;
    let is_operational = |link: Option<Link>| link.is_some_and(|link| link.is_operational);
    if is_operational(socket.link(port)?) {
        return Ok(());
    }
    // Events may be lost when there are many; then only the state counts.
    match events.wait_until_operational(port) {
        Err(_) if is_operational(socket.link(port)?) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_are_valid_and_recognised() {
        for id in ["", "a", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"] {
            let name = port_name(id);
            assert!(name.len() == MAX_LINK_NAME && is_port_name(&name), "{name}");
        }
        assert_ne!(port_name("a"), port_name("b"));
        for name in ["pw", "pwxyz", "veth0123456789a", "pw0123456789ab", "pw0123456789xyz"] {
            assert!(!is_port_name(name), "{name}");
        }
    }

    #[test]
    fn hardware_address_follows_from_first_ipv4_address() {
        let addresses =
            |list: &[&str]| -> Vec<Cidr> { list.iter().map(|text| text.parse().unwrap()).collect() };
        assert_eq!(hardware_address(&addresses(&["fd00::5/64", "10.1.2.3/16"])), [0x0a, 0x58, 10, 1, 2, 3]);
        assert_eq!(hardware_address(&addresses(&["fd00::1:5/64"])), [0x0a, 0x58, 0, 1, 0, 5]);
    }
}
