//! The Node object: what a node is registered with, and what its status says.
//!
//! [`updated`] brings a Node in line with what was seen, [`patch::status_patch`] is the difference, and
//! [`schedule::ReportSchedule`] says when a node that did not change is reported all the same.

mod addresses;
mod amounts;
mod capacity;
mod conditions;
mod images;
mod info;
pub mod patch;
pub mod readiness;
mod registration;
pub mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler, NodeRuntimeHandlerFeatures,
    NodeStatus, Taint,
};
use model::{
    EventType, ImageStatus, MachineIdentity, NodeResources, RuntimeHandler, RuntimeVersion, Timestamp,
};

pub use addresses::{node_addresses, parse_node_ips};
pub(crate) use capacity::is_extended;
pub use conditions::is_ready;
pub use registration::{initial_node, reconciled};

/// The label of the operating system, which the status brings back when it is lost.
const OS_LABEL: &str = "kubernetes.io/os";
/// The label of the architecture, which the status brings back when it is lost.
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
/// What pods run on here.
const OS: &str = "linux";

/// What is told of the node and fixed at start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeProfile {
    /// Node name, which is the host name too.
    pub name: String,
    /// Architecture in Go's words: `amd64`.
    pub architecture: String,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `registerWithTaints`.
    pub taints: Vec<Taint>,
    /// `providerID`; may be empty.
    pub provider_id: String,
    /// Who knows the machine's addresses.
    pub cloud: CloudProvider,
    /// `enableControllerAttachDetach`: volumes are attached by a controller.
    pub controller_attach_detach: bool,
    /// `--node-ip`: none, one or two of different families.
    pub node_ips: Vec<IpAddr>,
    /// What there is and what is reserved.
    pub resources: NodeResources,
    /// `localStorageCapacityIsolation`: a node without `ephemeral-storage` is not ready.
    pub needs_storage: bool,
    /// The state of device plugins is gone, as on a machine that was made anew.
    pub devices_are_forgotten: bool,
    /// `nodeStatusMaxImages`; `None` for all.
    pub max_images: Option<usize>,
    /// Port of the agent's server.
    pub port: u16,
    /// Features that pods may ask for.
    pub declared_features: Vec<String>,
    /// The version of the agent in Kubernetes' numbers.
    pub version: String,
}

/// `--cloud-provider`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudProvider {
    /// There is none.
    #[default]
    None,
    /// A controller completes the node.
    External,
}

/// What is seen of the node at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSight {
    /// The machine.
    pub machine: MachineIdentity,
    /// Its addresses.
    pub addresses: AddressSight,
    /// The runtime; `None` when it did not answer.
    pub runtime: Option<RuntimeVersion>,
    /// The runtime's handlers.
    pub handlers: Vec<RuntimeHandler>,
    /// Whether the runtime honours `supplementalGroupsPolicy`; `None` while nothing is known.
    pub supplemental_groups_policy: Option<bool>,
    /// Images on the node.
    pub images: Vec<ImageStatus>,
    /// Why the node is not ready: runtime, network, shutdown, in this order.
    pub problems: Vec<String>,
    /// What keeps a node from becoming ready but takes nothing from one that is: storage that has only to be announced.
    pub obstacles: Vec<String>,
    /// What runs short.
    pub pressure: Pressure,
    /// Volumes that must not be detached; `None` while that is not known.
    pub volumes_in_use: Option<Vec<String>>,
}

/// What is seen of the machine's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSight {
    /// All addresses of its interfaces.
    pub interfaces: Vec<IpAddr>,
    /// What the node's name resolves to.
    pub by_name: Vec<IpAddr>,
    /// Source addresses of the default routes.
    pub default_routes: Vec<IpAddr>,
}

/// What runs short on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Disk space or inodes.
    pub disk: bool,
    /// Process ids.
    pub pid: bool,
}

/// Something that users should learn of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Severity.
    pub kind: EventType,
    /// One word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl NodeEvent {
    /// A change of the node's own state, in upstream's words.
    #[must_use]
    pub fn now_is(node: &str, reason: &'static str) -> Self {
        let message = format!("Node {node} status is now: {reason}");
        Self { kind: EventType::Normal, reason, message }
    }
}

/// A Node brought in line.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// The whole object.
    pub node: Node,
    /// What users should learn, once the object is written.
    pub events: Vec<NodeEvent>,
}

/// The node as it should be known now. What others wrote (labels, spec, conditions and resources of their own) stays.
#[must_use]
pub fn updated(known: &Node, profile: &NodeProfile, sight: &NodeSight, now: Timestamp) -> Updated {
    let mut node = known.clone();
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(OS_LABEL.to_owned(), OS.to_owned());
    labels.insert(ARCHITECTURE_LABEL.to_owned(), profile.architecture.clone());
    addresses::annotate(&mut node.metadata, profile, &sight.addresses);
    let mut events = Vec::new();
    let status = node.status.get_or_insert_default();
    if let Some(found) = node_addresses(profile, &sight.addresses, status.addresses.as_deref()) {
        status.addresses = Some(found);
    }
    capacity::set(status, &profile.resources);
    events.extend(info::set(status, profile, sight));
    set_runtime(status, profile, sight);
    status.images = images::listed(&sight.images, profile.max_images);
    events.extend(conditions::set(status, profile, sight, now));
    if let Some(volumes) = &sight.volumes_in_use {
        status.volumes_in_use = Some(volumes.clone()).filter(|volumes| !volumes.is_empty());
    }
    Updated { node, events }
}

fn set_runtime(status: &mut NodeStatus, profile: &NodeProfile, sight: &NodeSight) {
    status.daemon_endpoints = Some(NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(profile.port) }),
    });
    let mut declared = profile.declared_features.clone();
    // The API server takes them in this order only.
    declared.sort();
    status.declared_features = Some(declared).filter(|features| !features.is_empty());
    if let Some(policy) = sight.supplemental_groups_policy {
        status.features = Some(NodeFeatures { supplemental_groups_policy: Some(policy) });
    }
    let mut handlers: Vec<NodeRuntimeHandler> = sight.handlers.iter().map(handler).collect();
    // Runtimes tell them in any order; a new order is no news.
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    status.runtime_handlers = Some(handlers).filter(|handlers| !handlers.is_empty());
}

fn handler(told: &RuntimeHandler) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        // The API shows an empty name too: that of the default handler.
        name: Some(told.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(told.recursive_read_only_mounts),
            user_namespaces: Some(told.user_namespaces),
        }),
    }
}
