use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;

use crate::Timestamp;

/// Resources of a pod: of its containers by name, and of the pod itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodResources {
    /// Of containers that can be resized.
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Pod-level resources.
    pub pod: Option<ResourceRequirements>,
}

/// What the node has granted to a pod, and how far a change of it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAllocation {
    /// What the pod may use; its spec may ask for something else.
    pub granted: PodResources,
    /// Condition `PodResizePending`: the spec asks for what cannot be granted (yet).
    pub pending: Option<ResizeCondition>,
    /// Condition `PodResizeInProgress`: what was granted is not in force yet.
    pub in_progress: Option<ResizeCondition>,
}

/// A condition about a resize, which is true while it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeCondition {
    /// `Deferred`, `Infeasible`, `Error` or nothing.
    pub reason: String,
    /// Why.
    pub message: String,
    /// When the reason became this one.
    pub since: Timestamp,
    /// Generation of the pod that asked.
    pub generation: i64,
}
