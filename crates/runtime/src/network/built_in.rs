//! The built-in network: a bridge, a pair of links per pod, masquerading and host ports.
//!
//! A set-up is a list of steps. What a step makes is either recorded before (addresses, host ports) or has a name that follows
//! from the sandbox's id (links), so that tear-down and recovery find it, wherever the set-up was interrupted.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use parking_lot::Mutex;

use super::bridge::Bridge;
use super::cidr::Cidr;
use super::errors::{During, NetworkFailure};
use super::namespaces::{in_namespace, open_namespace};
use super::packet_filter::{FilterContent, PacketFilter, PortTarget, forget_udp_flows};
use super::pod_links::{configure_inside, create_pair, enable_port, is_port_name, port_name};
use super::ranges::{Ranges, RangesFile};
use super::request::{Bandwidth, PodNetworkRequest, PortMapping};
use super::reservations::{Owner, Reservations};
use super::route_socket::RouteSocket;
use super::settings::NetworkSettings;

/// Kernel limit of link names, without the final zero byte.
const MAX_NAME: usize = super::route_socket::MAX_LINK_NAME;

#[derive(Debug)]
pub(super) struct BuiltInNetwork {
    bridge: Bridge,
    ranges_file: RangesFile,
    reservations: Reservations,
    filter: PacketFilter,
    node: Mutex<NodeState>,
}

/// Shared by all pods. Locked while the bridge or the table is changed.
#[derive(Debug)]
struct NodeState {
    ranges: Ranges,
    /// The table has the content that follows from the reservations.
    is_table_current: bool,
}

/// In this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetUpStep {
    ReserveAddresses,
    ReserveHostPorts,
    PrepareNode,
    CreateLinks,
    ConfigurePod,
    EnablePort,
    PublishHostPorts,
}

impl SetUpStep {
    pub(super) const ALL: [Self; 7] = [
        Self::ReserveAddresses,
        Self::ReserveHostPorts,
        Self::PrepareNode,
        Self::CreateLinks,
        Self::ConfigurePod,
        Self::EnablePort,
        Self::PublishHostPorts,
    ];
}

/// A pod whose network is being set up.
#[derive(Debug)]
pub(super) struct Attachment {
    owner: Owner,
    namespace: std::fs::File,
    bandwidth: Bandwidth,
    host_ports: Vec<PortMapping>,
    port: String,
    /// With the prefix lengths of their ranges.
    addresses: Vec<Cidr>,
}

impl BuiltInNetwork {
    pub(super) fn open(settings: &NetworkSettings) -> Result<Self, NetworkFailure> {
        validate_name("bridge name", &settings.bridge, MAX_NAME)?;
        validate_name("nf_tables table", &settings.nft_table, 64)?;
        let reservations = Reservations::open(&settings.state_folder)?;
        let ranges_file = RangesFile::in_folder(&settings.state_folder);
        let ranges = Ranges::load(&ranges_file, &settings.pod_cidrs)?;
        Ok(Self {
            bridge: Bridge {
                name: settings.bridge.clone(),
                mtu: settings.mtu,
                owner: owner_name(&settings.state_folder)?,
            },
            ranges_file,
            reservations,
            filter: PacketFilter { table: settings.nft_table.clone(), bridge: settings.bridge.clone() },
            node: Mutex::new(NodeState { ranges, is_table_current: false }),
        })
    }

    pub(super) fn has(&self, sandbox_id: &str) -> Result<bool, NetworkFailure> {
        Ok(!self.reservations.addresses_of(sandbox_id)?.is_empty())
    }

    pub(super) fn current_ranges(&self) -> Vec<Cidr> {
        self.node.lock().ranges.current.clone()
    }

    /// Checks a request before anything is made.
    pub(super) fn admit(&self, request: &PodNetworkRequest) -> Result<Attachment, NetworkFailure> {
        let owner = Owner::of(request);
        if self.has(&owner.sandbox_id)? {
            return Err(NetworkFailure::AlreadySetUp);
        }
        let mut host_ports: Vec<PortMapping> = Vec::new();
        for port in request.port_mappings.iter().filter(|port| port.host_port != 0) {
            // Two containers of a pod may name the same host port; the first one gets it, as with CNI's portmap.
            if !host_ports.iter().any(|earlier| earlier.conflicts_with(port)) {
                host_ports.push(*port);
            }
        }
        if let Some(port) = host_ports.iter().find(|port| port.container_port == 0) {
            let reason = "the container port is 0";
            return Err(NetworkFailure::Invalid { field: "host port", value: port.host_side(), reason });
        }
        Ok(Attachment {
            namespace: open_namespace(&request.netns)?,
            bandwidth: Bandwidth::from_annotations(&request.annotations)?,
            host_ports,
            port: port_name(&owner.sandbox_id),
            owner,
            addresses: Vec::new(),
        })
    }

    /// After an error, the caller tears the network down.
    pub(super) fn set_up(&self, mut attachment: Attachment) -> Result<Vec<IpAddr>, NetworkFailure> {
        SetUpStep::ALL.into_iter().try_for_each(|step| self.perform(step, &mut attachment))?;
        Ok(attachment.addresses.iter().map(|cidr| cidr.address()).collect())
    }

    pub(super) fn perform(&self, step: SetUpStep, pod: &mut Attachment) -> Result<(), NetworkFailure> {
        match step {
            SetUpStep::ReserveAddresses => {
                let ranges = self.current_ranges();
                if ranges.is_empty() {
                    return Err(NetworkFailure::NoRange);
                }
                for range in ranges {
                    let address = self.reservations.reserve_address(range, &pod.owner)?;
                    pod.addresses.extend(Cidr::new(address, range.prefix()));
                }
                Ok(())
            }
            SetUpStep::ReserveHostPorts => self.reservations.reserve_ports(&pod.host_ports, &pod.owner),
            SetUpStep::PrepareNode => self.prepare_node(),
            SetUpStep::CreateLinks => {
                let mut socket = RouteSocket::open()?;
                let mtu = self.bridge.mtu(&mut socket)?;
                let bridge = self.bridge.find(&mut socket)?;
                let bridge = bridge.ok_or_else(|| NetworkFailure::NotABridge(self.bridge.name.clone()))?;
                create_pair(&pod.port, &bridge, mtu, &pod.namespace, &pod.addresses)
            }
            SetUpStep::ConfigurePod => {
                let (addresses, bandwidth) = (&pod.addresses, pod.bandwidth);
                in_namespace(&pod.namespace, || configure_inside(addresses, bandwidth))
            }
            SetUpStep::EnablePort => enable_port(&pod.port, &pod.owner.pod, pod.bandwidth),
            SetUpStep::PublishHostPorts => self.publish(pod),
        }
    }

    /// Creates the bridge and the table, or repairs them.
    pub(super) fn prepare_node(&self) -> Result<(), NetworkFailure> {
        let mut node = self.node.lock();
        // Not of another owner: its table has the same name.
        self.bridge.find(&mut RouteSocket::open()?)?;
        // First: its rules guard 127.0.0.1 before the bridge accepts packets to it.
        if !node.is_table_current || !self.filter.exists()? {
            self.replace_table(&mut node)?;
        }
        self.bridge.ensure(&node.ranges)?;
        self.ranges_file.write(&node.ranges)
    }

    fn publish(&self, pod: &Attachment) -> Result<(), NetworkFailure> {
        let addresses: Vec<IpAddr> = pod.addresses.iter().map(|cidr| cidr.address()).collect();
        let targets = targets(&pod.host_ports, &addresses);
        let mut node = self.node.lock();
        if !node.is_table_current || !self.filter.add(&targets)? {
            self.replace_table(&mut node)?;
        }
        drop(node);
        forget_udp_flows(&targets)
    }

    /// Idempotent, also for a sandbox that was never set up.
    pub(super) fn tear_down(&self, sandbox_id: &str) -> Result<(), NetworkFailure> {
        let addresses = self.reservations.addresses_of(sandbox_id)?;
        self.withdraw(sandbox_id, &addresses)?;
        let mut socket = RouteSocket::open()?;
        socket.delete_link(&port_name(sandbox_id))?;
        // The bridge may belong to others meanwhile.
        if let Ok(Some(bridge)) = self.bridge.find(&mut socket) {
            addresses.iter().try_for_each(|address| socket.forget_neighbour(&bridge, *address))?;
        }
        self.reservations.release(sandbox_id)
    }

    /// Removes host ports, first their records: otherwise a concurrent replacement of the table would restore them.
    fn withdraw(&self, sandbox_id: &str, addresses: &[IpAddr]) -> Result<(), NetworkFailure> {
        let mut node = self.node.lock();
        let targets = targets(&self.reservations.ports_of(sandbox_id)?, addresses);
        if targets.is_empty() {
            return Ok(());
        }
        let was_current = std::mem::replace(&mut node.is_table_current, false);
        self.reservations.release_ports(sandbox_id)?;
        if was_current && self.filter.delete(&targets)? {
            node.is_table_current = true;
        } else {
            self.replace_table(&mut node)?;
        }
        drop(node);
        forget_udp_flows(&targets)
    }

    pub(super) fn set_ranges(&self, new: &[Cidr]) -> Result<(), NetworkFailure> {
        let mut node = self.node.lock();
        let new: Vec<Cidr> = new.iter().map(|range| range.network()).collect();
        if node.ranges.current == new && node.ranges.former.is_empty() {
            // Recorded, so that they also apply after a restart.
            return self.ranges_file.write(&node.ranges);
        }
        node.ranges.replace_current(&new)?;
        self.drop_unused_ranges(&mut node)?;
        self.ranges_file.write(&node.ranges)?;
        self.refresh(&mut node)
    }

    /// Removes everything of sandboxes that no longer exist.
    pub(super) fn recover(&self, live: &HashSet<&str>) -> Result<(), NetworkFailure> {
        let mut node = self.node.lock();
        let live_ports: HashSet<String> = live.iter().map(|id| port_name(id)).collect();
        let mut socket = RouteSocket::open()?;
        if let Some(bridge) = self.bridge.find(&mut socket)? {
            let ports = socket.ports(&bridge)?;
            let is_stale = |name: &str| is_port_name(name) && !live_ports.contains(name);
            let mut stale = ports.iter().filter(|port| is_stale(&port.name));
            stale.try_for_each(|port| socket.delete_link(&port.name))?;
        }
        let before = self.reservations.addresses()?;
        self.reservations.release_all_except(live)?;
        let is_released = |id: &str| !live.contains(id);
        if let Some(bridge) = self.bridge.find(&mut socket)? {
            let released = before.iter().filter(|record| is_released(&record.owner.sandbox_id));
            released
                .map(|record| record.subject)
                .try_for_each(|address| socket.forget_neighbour(&bridge, address))?;
        }
        self.drop_unused_ranges(&mut node)?;
        self.refresh(&mut node)
    }

    /// Applies changed ranges and reservations, if pods have used this network since the machine started.
    fn refresh(&self, node: &mut NodeState) -> Result<(), NetworkFailure> {
        node.is_table_current = false;
        let has_bridge = self.bridge.find(&mut RouteSocket::open()?)?.is_some();
        if has_bridge || self.filter.exists()? {
            self.replace_table(node)?;
        }
        if has_bridge { self.bridge.ensure(&node.ranges) } else { Ok(()) }
    }

    /// Removes the bridge and the table, unless a pod uses them.
    pub(super) fn remove_unused(&self) -> Result<(), NetworkFailure> {
        let mut node = self.node.lock();
        if !self.reservations.addresses()?.is_empty() {
            return Ok(());
        }
        node.is_table_current = false;
        let mut socket = RouteSocket::open()?;
        if self.bridge.find(&mut socket)?.is_some() {
            socket.delete_link(&self.bridge.name)?;
        }
        if self.filter.exists()? { self.filter.remove() } else { Ok(()) }
    }

    fn drop_unused_ranges(&self, node: &mut NodeState) -> Result<(), NetworkFailure> {
        let used = self.reservations.addresses()?;
        let is_used = |range: &Cidr| used.iter().any(|record| range.contains(record.subject));
        let former = std::mem::take(&mut node.ranges.former);
        let (former, unused): (Vec<Cidr>, Vec<Cidr>) = former.into_iter().partition(is_used);
        node.ranges.former = former;
        self.bridge.remove_gateways(&unused)
    }

    fn replace_table(&self, node: &mut NodeState) -> Result<(), NetworkFailure> {
        node.is_table_current = false;
        let addresses = self.reservations.addresses()?;
        let ports = self.reservations.ports()?;
        let of_port = ports.iter().flat_map(|port| {
            let of_owner =
                addresses.iter().filter(|address| address.owner.sandbox_id == port.owner.sandbox_id);
            let addresses: Vec<IpAddr> = of_owner.map(|address| address.subject).collect();
            targets(&[port.subject], &addresses)
        });
        let content = FilterContent { ranges: node.ranges.all().collect(), ports: of_port.collect() };
        self.filter.replace(&content)?;
        node.is_table_current = true;
        Ok(())
    }
}

fn targets(ports: &[PortMapping], addresses: &[IpAddr]) -> Vec<PortTarget> {
    let of_port = |port: &PortMapping| {
        let port = *port;
        let of_family = addresses.iter().filter(move |address| port.has_family(address.is_ipv6()));
        of_family.map(move |pod| PortTarget { port, pod: *pod })
    };
    ports.iter().flat_map(of_port).collect()
}

/// The state folder, as far as the alias of a link can name it.
fn owner_name(state_folder: &Path) -> Result<String, NetworkFailure> {
    const MAX_ALIAS: usize = 255;
    let mut name = state_folder.canonicalize().on_path("find", state_folder)?.display().to_string();
    while name.len() > MAX_ALIAS {
        name.pop();
    }
    Ok(name)
}

fn validate_name(field: &'static str, name: &str, max: usize) -> Result<(), NetworkFailure> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    // Settings of links with these names are settings of all links.
    let is_reserved = ["all", "default", "lo"].contains(&name);
    if !name.is_empty() && name.len() <= max && name.bytes().all(is_allowed) && !is_reserved {
        return Ok(());
    }
    let reason = "not a name of letters, digits, hyphens and underscores";
    Err(NetworkFailure::Invalid { field, value: name.to_owned(), reason })
}

#[cfg(test)]
mod tests;
