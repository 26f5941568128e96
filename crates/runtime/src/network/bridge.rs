//! The bridge that connects the pods of a node, and the settings of the kernel that it needs.

use std::path::Path;

use super::cidr::Cidr;
use super::errors::NetworkFailure;
use super::namespaces::write_network_setting;
use super::ranges::Ranges;
use super::reservations::gateway;
use super::route_socket::{Link, Named, RouteSocket};

/// The bridge of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) name: String,
    /// `None`: that of the node's uplinks.
    pub(super) mtu: Option<u32>,
    /// The state folder of the networks that use it. Two of them would hand out the same addresses.
    pub(super) owner: String,
}

impl Bridge {
    /// The bridge, if it exists. One whose owner no longer exists is removed.
    pub(super) fn find(&self, socket: &mut RouteSocket) -> Result<Option<Link>, NetworkFailure> {
        let Some(link) = socket.link(&self.name)? else { return Ok(None) };
        if link.kind != "bridge" {
            return Err(NetworkFailure::NotABridge(self.name.clone()));
        }
        if link.alias.is_empty() || link.alias == self.owner {
            return Ok(Some(link));
        }
        if Path::new(&link.alias).exists() {
            return Err(NetworkFailure::BridgeTaken { bridge: self.name.clone(), owner: link.alias });
        }
        socket.delete_link(&self.name).map(|()| None)
    }

    /// The maximum packet size of new links; `None`: the kernel's.
    pub(super) fn mtu(&self, socket: &mut RouteSocket) -> Result<Option<u32>, NetworkFailure> {
        self.mtu.map_or_else(|| socket.uplink_mtu(), |mtu| Ok(Some(mtu)))
    }

    /// Creates what is missing.
    pub(super) fn ensure(&self, ranges: &Ranges) -> Result<(), NetworkFailure> {
        let mut socket = RouteSocket::open()?;
        let bridge = match self.find(&mut socket)? {
            Some(link) => link,
            None => {
                let mtu = self.mtu(&mut socket)?;
                socket.create_bridge(&self.name, mtu)?;
                find(&mut socket, &self.name)?
            }
        };
        if bridge.alias.is_empty() {
            socket.set_alias(&bridge, &self.owner)?;
        }
        write_settings(&self.name, ranges.has_v6())?;
        if !bridge.is_enabled {
            // A bridge without a fixed hardware address takes that of one of its ports, and changes it with them.
            let enabled = socket.set_link(bridge.index, |message| {
                message.bytes(libc::IFLA_ADDRESS, &bridge.mac);
            });
            enabled.named("bring up", &self.name)?;
        }
        ensure_gateways(&mut socket, &bridge, ranges)
    }

    /// Removes the gateway addresses of ranges that no pod uses any more.
    pub(super) fn remove_gateways(&self, unused: &[Cidr]) -> Result<(), NetworkFailure> {
        let mut socket = RouteSocket::open()?;
        let Some(bridge) = self.find(&mut socket)? else { return Ok(()) };
        let mut gateways = unused.iter().filter_map(|range| gateway(*range));
        gateways.try_for_each(|address| socket.remove_address(&bridge, address))
    }
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
    let all = socket.all_addresses()?;
    let outside = || all.iter().filter(|(index, _)| *index != bridge.index).map(|(_, cidr)| cidr.address());
    for range in &ranges.current {
        if let Some(address) = outside().find(|address| range.contains(*address)) {
            return Err(NetworkFailure::RangeTaken { range: *range, address });
        }
    }
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
