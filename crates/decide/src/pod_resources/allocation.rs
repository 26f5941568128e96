//! Allocated resources of pods, as opposed to those in their specs.
//!
//! A pod runs with the resources that were allocated at its admission. A change of its spec is a resize, which is admitted
//! like a new pod; until then the pod keeps its allocated resources.

pub mod checkpoint;
mod conditions;
mod message;

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::{ContainerKind, MemoryManagerPolicy, NodeSettings, Pod, PodAllocation, PodGates, PodResources};

pub use conditions::{
    ConditionUpdate, PendingReason, adopt_conditions, clear_in_progress, clear_pending, resize_conditions,
    set_in_progress, set_in_progress_error, set_pending,
};
pub use message::{completed_message, error_message, pending_message, started_message};

use crate::cpus::{resizes_exclusive_cpus, resizes_guaranteed_pod};
use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::pod_resources::resources::{may_swap, pod_requests};
use crate::quantity::{ResourceList, amount_in, amount_of};

/// Resources that can be changed in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// The resources in a pod spec.
pub fn resources_of(pod: &Pod) -> PodResources {
    let own = |container: &Container| container.resources.clone().unwrap_or_default();
    PodResources {
        containers: pod.containers().map(|entry| (&entry.container.name, own(entry.container))).collect(),
        pod: pod.spec.resources.clone(),
    }
}

/// Whether there are any requests or limits that can be resized.
pub fn has_resizable_resources(resources: &PodResources) -> bool {
    let lists = |one: &ResourceRequirements| {
        [&one.requests, &one.limits]
            .into_iter()
            .flatten()
            .any(|list| RESIZABLE.iter().any(|name| list.contains_key(*name)))
    };
    resources.containers.iter().any(|(_, own)| lists(own)) || resources.pod.as_ref().is_some_and(lists)
}

/// The pod with its allocated resources; `None` if they equal those of the spec.
pub fn allocated_pod(pod: &Pod, allocated: &PodResources) -> Option<Pod> {
    let differs = |container: &&Container| {
        allocated
            .containers
            .get(&container.name)
            .is_some_and(|own| !same(container.resources.as_ref(), Some(own)))
    };
    let all = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let changed = all.clone().any(|container| differs(&container));
    let pod_changed = !same(pod.spec.resources.as_ref(), allocated.pod.as_ref());
    if !changed && !pod_changed {
        return None;
    }
    let mut copy = pod.clone();
    if pod_changed {
        copy.spec.resources.clone_from(&allocated.pod);
    }
    let init = copy.spec.init_containers.iter_mut().flatten();
    for container in copy.spec.containers.iter_mut().chain(init) {
        if differs(&&*container) {
            container.resources = allocated.containers.get(&container.name).map(|own| (**own).clone());
        }
    }
    Some(copy)
}

/// Whether an update of a pod changes its CPU or memory.
pub fn is_resize(old: &Pod, new: &Pod) -> bool {
    let sizes = |resources: Option<&ResourceRequirements>| {
        let list = |list: Option<&ResourceList>| RESIZABLE.map(|name| amount_in(list, name));
        (
            list(resources.and_then(|resources| resources.requests.as_ref())),
            list(resources.and_then(|resources| resources.limits.as_ref())),
        )
    };
    let changed = |entry: model::ContainerRef<'_>| {
        new.container(&entry.container.name).is_some_and(|other| {
            sizes(other.container.resources.as_ref()) != sizes(entry.container.resources.as_ref())
        })
    };
    old.containers().any(changed) || !same(old.spec.resources.as_ref(), new.spec.resources.as_ref())
}

/// Whether the desired requests exceed the allocated ones.
pub fn is_increase(desired: &Pod, allocated: &Pod) -> bool {
    let (new, old) = (pod_requests(desired), pod_requests(allocated));
    RESIZABLE
        .iter()
        .any(|name| new.get(*name).copied().unwrap_or_default() > old.get(*name).copied().unwrap_or_default())
}

/// A pending resize with its sort keys.
#[derive(Clone, Debug)]
pub struct PendingResize<'a> {
    /// The pod with the resources of its spec.
    pub desired: &'a Pod,
    pub allocated: &'a Pod,
    pub allocation: &'a PodAllocation,
}

/// The order of pending resizes: those that increase nothing first, then by priority, Guaranteed pods, the longest wait.
pub fn resize_order(one: &PendingResize<'_>, other: &PendingResize<'_>) -> Ordering {
    let key = |resize: &PendingResize<'_>| {
        let pending = resize.allocation.pending.as_ref();
        (
            is_increase(resize.desired, resize.allocated),
            std::cmp::Reverse(resize.desired.spec.priority.unwrap_or(0)),
            pod_qos_class(resize.desired) != QosClass::Guaranteed,
            pending.is_none(),
            pending.map(|pending| pending.since),
        )
    };
    key(one).cmp(&key(other))
}

/// Why a resize can never be allocated on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfeasibleReason {
    /// The swap limit depends on the memory request and cannot be changed while the container runs.
    Swap,
    /// `InPlacePodLevelResourcesVerticalScaling` is disabled.
    PodLevel,
    /// The number of exclusive CPUs cannot change while the container runs.
    StaticCpuPolicy,
    /// The NUMA nodes of a container's memory cannot change while it runs.
    StaticMemoryPolicy,
}

impl InfeasibleReason {
    /// The message of the condition and the event.
    pub fn message(self) -> &'static str {
        match self {
            Self::Swap => "In-place resize of containers with swap is not supported.",
            Self::PodLevel => "InPlacePodLevelResourcesVerticalScaling is disabled",
            Self::StaticCpuPolicy => {
                "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\""
            }
            Self::StaticMemoryPolicy => {
                "Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\""
            }
        }
    }

    /// The label of `pod_infeasible_resizes_total`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Swap => "swap_limitation",
            Self::PodLevel => "plr_feature_gate_off",
            Self::StaticCpuPolicy => "guaranteed_pod_cpu_manager_static_policy",
            Self::StaticMemoryPolicy => "guaranteed_pod_memory_manager_static_policy",
        }
    }
}

/// Why a resize can never be allocated on this node; `None` if it depends on free resources.
pub fn infeasible(desired: &Pod, allocated: &Pod, settings: &NodeSettings) -> Option<InfeasibleReason> {
    let swaps = desired.containers().any(|entry| {
        let Some(before) = allocated.container(&entry.container.name) else { return false };
        let request = |container: &Container| {
            amount_in(container.resources.as_ref().and_then(|own| own.requests.as_ref()), "memory")
        };
        request(entry.container) != request(before.container)
            && !restarts_for(before.container, "memory")
            && (may_swap(desired, entry.container, settings)
                || may_swap(allocated, before.container, settings))
    });
    let of_pod = || {
        !settings.gates.pod_level_resize
            && !same(desired.spec.resources.as_ref(), allocated.spec.resources.as_ref())
    };
    if !settings.gates.exclusive_cpu_resize && resizes_exclusive_cpus(desired, allocated, settings) {
        return Some(InfeasibleReason::StaticCpuPolicy);
    }
    if !settings.gates.exclusive_memory_resize
        && settings.memory_policy == MemoryManagerPolicy::Static
        && resizes_guaranteed_pod(desired, allocated, "memory")
    {
        return Some(InfeasibleReason::StaticMemoryPolicy);
    }
    if swaps { Some(InfeasibleReason::Swap) } else { of_pod().then_some(InfeasibleReason::PodLevel) }
}

/// Whether a resize of this resource restarts the container.
pub fn restarts_for(container: &Container, resource: &str) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    policies.any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
}

/// Whether a container of this kind is resized in place while it runs.
pub fn is_resizable(kind: ContainerKind, container: &Container, gates: PodGates) -> bool {
    match kind {
        ContainerKind::Regular => true,
        ContainerKind::Init => gates.init_container_resize || is_sidecar(container),
        ContainerKind::Ephemeral => false,
    }
}

/// Compares the amounts; a missing list equals an empty one.
pub(crate) fn same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    type ListOf = fn(&ResourceRequirements) -> Option<&ResourceList>;
    let lists: [ListOf; 2] = [|own| own.requests.as_ref(), |own| own.limits.as_ref()];
    let claims =
        |own: Option<&ResourceRequirements>| own.and_then(|own| own.claims.clone()).unwrap_or_default();
    let same_list = |list_of: ListOf| {
        let (one, other) = (one.and_then(list_of), other.and_then(list_of));
        let covers = |one: Option<&ResourceList>, other: Option<&ResourceList>| {
            one.into_iter().flatten().all(|(name, amount)| {
                other
                    .and_then(|other| other.get(name))
                    .is_some_and(|found| amount_of(found) == amount_of(amount))
            })
        };
        covers(one, other) && covers(other, one)
    };
    lists.into_iter().all(same_list) && claims(one) == claims(other)
}

#[cfg(test)]
mod tests;
