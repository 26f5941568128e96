//! The bridge that connects the pods of a node, and the settings of the kernel that it needs.

use std::path::Path;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::namespaces::write_network_setting;
use super::ranges::Ranges;
use super::reservations::gateway;
use super::route_socket::{Link, Named, RouteSocket};

/// Creates what is missing, and returns the bridge.
pub(super) fn ensure_bridge(name: &str, mtu: Option<u32>, ranges: &Ranges) -> Result<Link, NetworkFailure> {
    let mut socket = RouteSocket::open()?;
    let bridge = match socket.link(name)? {
        Some(link) => link,
        None => {
            socket.create_bridge(name, mtu)?;
            find(&mut socket, name)?
        }
    };
    if bridge.kind != "bridge" {
        return Err(NetworkFailure::NotABridge(name.to_owned()));
    }
    write_settings(name, ranges.has_v6())?;
    if !bridge.is_enabled {
        // A bridge without a fixed hardware address takes that of one of its ports, and changes it with them.
        let enabled = socket.set_link(bridge.index, |message| {
            message.bytes(libc::IFLA_ADDRESS, &bridge.mac);
        });
        enabled.named("bring up", name)?;
    }
    ensure_gateways(&mut socket, &bridge, ranges)?;
    Ok(bridge)
}

/// The bridge, if it exists.
pub(super) fn find_bridge(socket: &mut RouteSocket, name: &str) -> Result<Option<Link>, NetworkFailure> {
    Ok(socket.link(name)?.filter(|link| link.kind == "bridge"))
}

fn find(socket: &mut RouteSocket, name: &str) -> Result<Link, NetworkFailure> {
    let missing = || NetworkFailure::Os {
        operation: "find link",
        subject: name.to_owned(),
        errno: rustix::io::Errno::NODEV,
    };
    socket.link(name)?.ok_or_else(missing)
}

fn write_settings(bridge: &str, has_v6: bool) -> Result<(), NetworkFailure> {
    let of_bridge = |family: &str, name: &str| format!("{family}/conf/{bridge}/{name}");
    write_network_setting("ipv4/ip_forward", "1")?;
    // Host ports of 127.0.0.1 lead from there to the bridge.
    write_network_setting(&of_bridge("ipv4", "route_localnet"), "1")?;
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return Ok(());
    }
    write_network_setting(&of_bridge("ipv6", "accept_ra"), "0")?;
    write_network_setting(&of_bridge("ipv6", "accept_dad"), "0")?;
    if has_v6 {
        write_network_setting(&of_bridge("ipv6", "disable_ipv6"), "0")?;
        write_network_setting("ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

/// The bridge has the gateway address of each range, and no other.
fn ensure_gateways(socket: &mut RouteSocket, bridge: &Link, ranges: &Ranges) -> Result<(), NetworkFailure> {
    let wanted: Vec<Cidr> = ranges.all().filter_map(gateway).collect();
    let present = socket.addresses(bridge)?;
    if let Some(foreign) = present.iter().find(|address| !wanted.contains(address)) {
        return Err(NetworkFailure::ForeignAddress { bridge: bridge.name.clone(), address: *foreign });
    }
    wanted
        .iter()
        .filter(|address| !present.contains(address))
        .try_for_each(|address| socket.add_address(bridge, *address))
}

/// Removes the gateway addresses of ranges that no pod uses any more.
pub(super) fn remove_gateways(name: &str, unused: &[Cidr]) -> Result<(), NetworkFailure> {
    let mut socket = RouteSocket::open()?;
    let Some(bridge) = find_bridge(&mut socket, name)? else { return Ok(()) };
    unused
        .iter()
        .filter_map(|range| gateway(*range))
        .try_for_each(|address| socket.remove_address(&bridge, address))
}
