//! Whether a new pod may run here: checks in upstream's order, the first refusal counts.
//!
//! Resources are compared with what admitted pods hold ([`Occupancy`]). A critical pod is not refused for want of
//! resources when ending less important pods makes room for it.

pub(crate) mod affinity;
mod conditions;
mod declared_features;
mod features;
mod fit;
mod occupancy;
mod preemption;
pub(crate) mod sysctls;
mod taints;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use model::{NodeSettings, Observation, ObservedPod, Pod, Rejection, ResourceAmounts};

use crate::node_status::{Pressure, is_extended};
use crate::quantity::{Amount, ResourceList};
pub use conditions::Shutdown;
pub use declared_features::unmet_by_update;
pub use occupancy::Occupancy;
pub use preemption::{end_by, end_within, is_critical};

/// What the checks look at besides the pod.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The node.
    pub settings: &'a NodeSettings,
    /// The node's labels, as the API server has them if there is one.
    pub labels: &'a BTreeMap<String, String>,
    /// The node's taints.
    pub taints: &'a [Taint],
    /// Resources that somebody announced on the Node object.
    pub announced: &'a ResourceAmounts,
    /// What admitted pods hold, the new one left out.
    pub occupancy: &'a Occupancy,
    /// Whether the runtime honours `supplementalGroupsPolicy`.
    pub strict_groups: StrictGroups,
    /// What runs short.
    pub pressure: Pressure,
    /// Whether the machine is going down.
    pub shutdown: Shutdown,
}

/// Whether the runtime can give containers exactly the groups of their pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictGroups {
    /// It can.
    Supported,
    /// It always adds the groups of the image.
    Unsupported,
}

/// What makes a predicate refuse a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Misfit {
    /// Too little of a resource.
    Resource(Shortage),
    /// Something that no preemption can help.
    Predicate { name: &'static str, description: &'static str },
}

/// Too little of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shortage {
    resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

/// How a pod comes to an agent that meets it for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It asks to be let in.
    New,
    /// An agent before this one let it in, and it runs.
    Running,
    /// It is over, or on its way out: nothing of it is started any more.
    Over,
}

/// How a pod comes to an agent that meets it for the first time.
#[must_use]
pub fn arrival(pod: &Pod, observed: Option<&ObservedPod>) -> Arrival {
    let over = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let alive = observed.is_some_and(|observed| match observed.observation {
        Observation::Listed { runs } => runs,
        Observation::Complete | Observation::Failed(_) => observed.running().next().is_some(),
    });
    match (over || pod.is_deleted(), alive) {
        (true, false) => Arrival::Over,
        // What still runs holds its share until it has stopped.
        (true | false, true) => Arrival::Running,
        (false, false) => Arrival::New,
    }
}

/// The resources of a Node object that are not the machine's own, such as devices.
#[must_use]
pub fn announced(allocatable: Option<&ResourceList>) -> ResourceAmounts {
    let all = allocatable.into_iter().flatten();
    all.filter(|(name, _)| is_extended(name))
        .map(|(name, amount)| (name.clone(), Amount::of(amount).units()))
        .collect()
}

/// Checks a pod. On success the pods that must end to make room for it, mostly none.
///
/// # Errors
/// The first check that refuses says why.
pub fn admit(pod: &Pod, node: &Node<'_>) -> Result<Vec<Arc<Pod>>, Rejection> {
    conditions::check_pressure(pod, node.pressure)?;
    sysctls::check(pod, &node.settings.admission)?;
    features::check_operating_system(pod)?;
    features::check_groups(pod, node.strict_groups)?;
    let mut misfits = fit::shortages(pod, node);
    misfits.extend(affinity::check(pod, node));
    misfits.extend(fit::check_ports(pod, node.occupancy));
    misfits.extend(taints::check(pod, node.taints));
    let victims = preemption::resolve(pod, node.occupancy, &misfits)?;
    features::check_apparmor(pod, &node.settings.admission)?;
    features::check_pod_level_resources(pod, &node.settings.admission)?;
    declared_features::check(pod, &node.settings.admission)?;
    conditions::check_shutdown(node.shutdown)?;
    Ok(victims)
}

/// Whether a refusal rests on labels alone, which may have changed just before the pod was placed here.
#[must_use]
pub fn rests_on_labels(rejection: &Rejection) -> bool {
    rejection.reason == affinity::NODE_AFFINITY
}

/// The first resource of which a pod finds too little.
#[must_use]
pub fn first_shortage(pod: &Pod, node: &Node<'_>) -> Option<String> {
    fit::shortages(pod, node).into_iter().find_map(|misfit| match misfit {
        Misfit::Resource(shortage) => Some(shortage.resource),
        Misfit::Predicate { .. } => None,
    })
}

/// The word for a refusal in metrics: words of which there is no end are put together.
#[must_use]
pub fn rejection_label(reason: &str) -> &str {
    const KNOWN: [&str; 20] = [
        "AppArmor",
        "Evicted",
        "InitContainerRestartPolicyForbidden",
        "InvalidNodeInfo",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfephemeral-storage",
        "OutOfmemory",
        "OutOfpods",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SupplementalGroupsPolicyNotSupported",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "VolumeAttachmentLimitExceeded",
    ];
    match KNOWN.iter().find(|known| **known == reason) {
        Some(known) => known,
        None if reason.starts_with("OutOf") => "OutOfExtendedResources",
        None => "Other",
    }
}

impl Misfit {
    fn rejection(&self) -> Rejection {
        match self {
            Self::Resource(shortage) => Rejection {
                reason: format!("OutOf{}", shortage.resource),
                message: format!(
                    "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
                    shortage.resource, shortage.requested, shortage.used, shortage.capacity
                ),
            },
            Self::Predicate { name, description } => Rejection {
                reason: (*name).to_owned(),
                message: format!("Predicate {name} failed: {description}"),
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
