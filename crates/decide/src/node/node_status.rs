//! The Node object: its registration and its status.
//!
//! [`updated_node`] computes the desired Node from the observed state, [`patch::status_patch`] the difference to the
//! current one, and [`schedule::ReportSchedule`] decides when an unchanged Node is reported.

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

use crate::devices::DeviceCount;
pub use addresses::{node_addresses, parse_node_ips};
pub(crate) use capacity::is_extended;
pub use conditions::is_ready;
pub use registration::{initial_node, reconcile_node};

/// Restored on every update if it is missing.
const OS_LABEL: &str = "kubernetes.io/os";
/// Restored on every update if it is missing.
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
const OS: &str = "linux";

/// Properties of the node that are fixed at start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeProfile {
    /// Name of the Node; also its host name.
    pub name: String,
    /// Go's `GOARCH` name, for example `amd64`.
    pub architecture: String,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `registerWithTaints`.
    pub taints: Vec<Taint>,
    /// `providerID`; may be empty.
    pub provider_id: String,
    pub cloud: CloudProvider,
    /// `enableControllerAttachDetach`.
    pub controller_attach_detach: bool,
    /// `--node-ip`: at most one address per family.
    pub node_ips: Vec<IpAddr>,
    /// Capacity and reservations.
    pub resources: NodeResources,
    /// `localStorageCapacityIsolation`: the node is not ready without `ephemeral-storage` capacity.
    pub requires_ephemeral_storage: bool,
    /// The device plugin checkpoint is missing, as after a reinstallation.
    pub device_state_lost: bool,
    /// `nodeStatusMaxImages`; `None` for all.
    pub max_images: Option<usize>,
    /// Port of the kubelet API.
    pub port: u16,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<String>,
    /// The Kubernetes version that the agent reports.
    pub version: String,
    pub fault_injection: FaultInjection,
}

/// Whether calls to the container runtime fail on purpose (`--podward-faults`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultInjection {
    #[default]
    Off,
    On,
}

/// `--cloud-provider`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CloudProvider {
    #[default]
    None,
    /// A cloud controller manager initializes the node.
    External,
}

/// Observed state that a node status is computed from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeStatusInputs {
    pub machine: MachineIdentity,
    pub addresses: NodeAddressInputs,
    /// `None` when the runtime did not answer.
    pub runtime: Option<RuntimeVersion>,
    pub handlers: Vec<RuntimeHandler>,
    /// Whether the runtime supports `supplementalGroupsPolicy`; `None` while unknown.
    pub supplemental_groups_policy: Option<bool>,
    pub images: Vec<ImageStatus>,
    /// Why the node is not ready: runtime, network, shutdown, in this order.
    pub problems: Vec<String>,
    /// Problems that keep a node from becoming ready but do not affect a node that is already ready.
    pub startup_problems: Vec<String>,
    pub pressure: Pressure,
    /// Volumes that must not be detached; `None` while unknown.
    pub volumes_in_use: Option<Vec<String>>,
    /// Devices of device plugins, by resource.
    pub devices: BTreeMap<String, DeviceCount>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddressInputs {
    /// Addresses of all interfaces.
    pub interfaces: Vec<IpAddr>,
    /// Addresses that the node name resolves to.
    pub by_name: Vec<IpAddr>,
    /// Source addresses of the default routes.
    pub default_routes: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub memory: bool,
    pub disk: bool,
    pub pid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    pub kind: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl NodeEvent {
    /// An event for a changed condition, with upstream's message.
    pub fn status_change(node: &str, reason: &'static str) -> Self {
        let message = format!("Node {node} status is now: {reason}");
        Self { kind: EventType::Normal, reason, message }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct UpdatedNode {
    pub node: Node,
    /// Events to record once the object is written.
    pub events: Vec<NodeEvent>,
}

/// The desired Node. Labels, spec fields, conditions and resources of other writers are kept.
pub fn updated_node(
    current: &Node,
    profile: &NodeProfile,
    inputs: &NodeStatusInputs,
    now: Timestamp,
) -> UpdatedNode {
    let mut node = current.clone();
    let labels = node.metadata.labels.get_or_insert_default();
    labels.insert(OS_LABEL.to_owned(), OS.to_owned());
    labels.insert(ARCHITECTURE_LABEL.to_owned(), profile.architecture.clone());
    addresses::annotate(&mut node.metadata, profile, &inputs.addresses);
    let mut events = Vec::new();
    let status = node.status.get_or_insert_default();
    if let Some(found) = node_addresses(profile, &inputs.addresses, status.addresses.as_deref()) {
        status.addresses = Some(found);
    }
    capacity::set(status, &profile.resources, &inputs.devices);
    events.extend(info::set(status, profile, inputs));
    set_runtime(status, profile, inputs);
    status.images = images::image_list(&inputs.images, profile.max_images);
    events.extend(conditions::set(status, profile, inputs, now));
    if let Some(volumes) = &inputs.volumes_in_use {
        status.volumes_in_use = Some(volumes.clone()).filter(|volumes| !volumes.is_empty());
    }
    UpdatedNode { node, events }
}

fn set_runtime(status: &mut NodeStatus, profile: &NodeProfile, inputs: &NodeStatusInputs) {
    status.daemon_endpoints = Some(NodeDaemonEndpoints {
        kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(profile.port) }),
    });
    let mut declared = profile.declared_features.clone();
    // The API server requires them to be sorted.
    declared.sort();
    status.declared_features = Some(declared).filter(|features| !features.is_empty());
    if let Some(policy) = inputs.supplemental_groups_policy {
        status.features = Some(NodeFeatures { supplemental_groups_policy: Some(policy) });
    }
    let mut handlers: Vec<NodeRuntimeHandler> = inputs.handlers.iter().map(handler).collect();
    // The order of the runtime is arbitrary; sort to avoid spurious changes.
    handlers.sort_by(|one, other| one.name.cmp(&other.name));
    status.runtime_handlers = Some(handlers).filter(|handlers| !handlers.is_empty());
}

fn handler(runtime_handler: &RuntimeHandler) -> NodeRuntimeHandler {
    NodeRuntimeHandler {
        // The default handler has an empty name, which the API shows too.
        name: Some(runtime_handler.name.clone()),
        features: Some(NodeRuntimeHandlerFeatures {
            recursive_read_only_mounts: Some(runtime_handler.recursive_read_only_mounts),
            user_namespaces: Some(runtime_handler.user_namespaces),
        }),
    }
}
