//! Networks of pods.
//!
//! Input: a pod's network namespace and what the pod asks for. Output: addresses by which the pod reaches and is reached, and
//! nothing left behind after tear-down, also if the process was killed in between.
//!
//! Without a CNI configuration, the built-in network connects pods by a bridge. No external program takes part: links,
//! addresses and routes are made by route netlink, masquerading and host ports by nf_tables. With a configuration in the
//! folder of CNI, its plugins are executed instead.
//!
//! All operations apply to the network namespace of the process.

mod bridge;
mod built_in;
mod cidr;
mod cni;
mod counters;
mod errors;
mod free_range;
mod namespaces;
mod netlink;
mod packet_filter;
mod pod_links;
mod pod_networks;
mod ranges;
mod request;
mod reservations;
mod route_socket;
mod settings;

pub use cidr::{Cidr, InvalidCidr};
pub use cni::{AddResult, InvalidResult};
pub(crate) use counters::{InterfaceCounters, interface_counters};
pub use errors::{NetworkError, NetworkFailure};
pub use free_range::free_pod_range;
pub use namespaces::{bring_up_loopback, create_pinned_namespace, remove_pinned_namespace};
pub use pod_networks::PodNetworks;
pub use request::{
    Bandwidth, LiveAttachment, PodAddresses, PodDns, PodNetworkRequest, PortMapping, PortProtocol,
};
pub use settings::{DEFAULT_BRIDGE, DEFAULT_POD_CIDR, NetworkSettings};
