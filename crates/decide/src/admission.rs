//! Whether a new pod may run on this node: checks in upstream's order, the first rejection counts.
//!
//! CPUs, memory and devices are allocated between [`check_before_allocation`] and [`check_after_allocation`].
//! Requests are compared with those of all admitted pods ([`Occupancy`]). A critical pod that lacks resources is admitted if
//! preempting less important pods frees enough of them.

pub(crate) mod affinity;
mod conditions;
mod declared_features;
mod features;
mod fit;
mod occupancy;
mod preemption;
mod sysctls;
mod taints;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use model::{NodeSettings, Observation, ObservedPod, Pod, Rejection, ResourceAmounts};

use crate::node::node_status::{Pressure, is_extended};
use crate::quantity::{ResourceList, amount_of};
use crate::status::status_report::is_terminal;
pub use conditions::Shutdown;
pub use declared_features::features_missing_for_update;
pub use occupancy::Occupancy;
pub use preemption::{preemption_timeout, termination_timeout};

/// Everything besides the pod that admission depends on.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionInputs<'a> {
    pub settings: &'a NodeSettings,
    /// Labels of the Node object, or those of the settings in standalone mode.
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    /// Extended resources in the allocatable of the Node object.
    pub extended_resources: &'a ResourceAmounts,
    pub occupancy: &'a Occupancy,
    pub strict_groups: StrictGroups,
    pub pressure: Pressure,
    pub shutdown: Shutdown,
}

/// Whether the runtime supports `supplementalGroupsPolicy: Strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictGroups {
    Supported,
    /// The runtime always adds the groups of the image.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PredicateFailure {
    /// Preemption may help.
    Resource(InsufficientResource),
    /// Preemption cannot help.
    Predicate { name: &'static str, description: &'static str },
}

/// A resource of which not enough is free.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InsufficientResource {
    resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

/// State of a pod when the agent first receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodArrival {
    /// The pod must be admitted.
    New,
    /// The pod runs: an earlier agent admitted it.
    Running,
    /// The pod has finished or terminates: none of its containers is started again.
    Finished,
}

/// Classifies a pod that the agent receives for the first time.
pub fn classify_arrival(pod: &Pod, observed: Option<&ObservedPod>) -> PodArrival {
    let alive = observed.is_some_and(|observed| match observed.observation {
        Observation::Listed { runs } => runs,
        Observation::Complete | Observation::Failed(_) => observed.running().next().is_some(),
    });
    match (is_terminal(&pod.status) || pod.is_deleted(), alive) {
        (true, false) => PodArrival::Finished,
        // A running pod keeps its resources until it has stopped.
        (true | false, true) => PodArrival::Running,
        (false, false) => PodArrival::New,
    }
}

/// Extended resources of the node, at least as much as is `allocated` to pods: a plugin that restarts has no devices, and its
/// pods keep theirs.
pub fn extended_resources(
    allocatable: Option<&ResourceList>,
    allocated: &ResourceAmounts,
) -> ResourceAmounts {
    let all = allocatable.into_iter().flatten().filter(|(name, _)| is_extended(name));
    let mut found: ResourceAmounts =
        all.map(|(name, amount)| (name.clone(), amount_of(amount).units())).collect();
    for (name, amount) in allocated {
        let known = found.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
    found
}

/// The checks of a pod that come before the allocation of managed resources: CPUs, memory and devices.
///
/// # Errors
/// The rejection of the first check that fails.
pub fn check_before_allocation(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Result<(), Rejection> {
    conditions::check_pressure(pod, inputs.pressure)?;
    sysctls::check(pod, &inputs.settings.admission)
}

/// The checks that come after the allocation of managed resources. Returns the pods that must be preempted for the pod,
/// usually none.
///
/// # Errors
/// The rejection of the first check that fails. The caller then releases the managed resources.
pub fn check_after_allocation(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Result<Vec<Arc<Pod>>, Rejection> {
    features::check_operating_system(pod)?;
    features::check_groups(pod, inputs.strict_groups)?;
    let mut failures = fit::insufficient_resources(pod, inputs);
    failures.extend(affinity::check(pod, inputs));
    failures.extend(fit::check_ports(pod, inputs.occupancy));
    let numeric = match inputs.settings.gates.numeric_tolerations {
        true => taints::NumericOperators::Allowed,
        false => taints::NumericOperators::Ignored,
    };
    failures.extend(taints::check(pod, inputs.taints, numeric));
    let victims = preemption::resolve(pod, inputs.occupancy, &failures)?;
    features::check_apparmor(pod, &inputs.settings.admission)?;
    features::check_pod_level_resources(pod, &inputs.settings.admission)?;
    declared_features::check(pod, &inputs.settings.admission)?;
    conditions::check_shutdown(inputs.shutdown)?;
    Ok(victims)
}

/// Whether a rejection is due to node labels, which may have changed just before the pod was scheduled here.
pub fn depends_on_labels(rejection: &Rejection) -> bool {
    rejection.reason == affinity::NODE_AFFINITY
}

/// Whether a rejection is due to a lack of CPUs, memory or devices, which removed pods may still release.
pub fn lacks_managed_resources(rejection: &Rejection) -> bool {
    let reasons = ["SMTAlignmentError", "TopologyAffinityError", "UnexpectedAdmissionError"];
    reasons.contains(&rejection.reason.as_str())
}

/// The first resource of which not enough is free for the pod.
pub fn first_insufficient_resource(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Option<String> {
    fit::insufficient_resources(pod, inputs).into_iter().find_map(|failure| match failure {
        PredicateFailure::Resource(insufficient) => Some(insufficient.resource),
        PredicateFailure::Predicate { .. } => None,
    })
}

/// The metric label of a rejection reason: reasons with unbounded names share one label.
pub fn rejection_label(reason: &str) -> &str {
    const LABELS: [&str; 20] = [
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
    match LABELS.iter().find(|label| **label == reason) {
        Some(label) => label,
        None if reason.starts_with("OutOf") => "OutOfExtendedResources",
        None => "Other",
    }
}

impl PredicateFailure {
    fn rejection(&self) -> Rejection {
        match self {
            Self::Resource(insufficient) => Rejection::at_admission(
                format!("OutOf{}", insufficient.resource),
                format!(
                    "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}",
                    insufficient.resource, insufficient.requested, insufficient.used, insufficient.capacity
                ),
            ),
            Self::Predicate { name, description } => {
                Rejection::at_admission(*name, format!("Predicate {name} failed: {description}"))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
