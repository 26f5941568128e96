//! What the node has granted to pods, as opposed to what their specs ask for.
//!
//! A pod runs with what was granted when it was admitted. When its spec asks for something else, that is admitted like
//! a new pod; until then the pod goes on with what it has.

pub mod checkpoint;
mod conditions;
mod message;

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::{ContainerKind, NodeSettings, Pod, PodAllocation, PodGates, PodResources};

pub use conditions::{
    News, PendingReason, clear_in_progress, clear_pending, resize_conditions, set_in_progress,
    set_in_progress_error, set_pending, take_over,
};
pub use message::{completed_message, error_message, pending_message, started_message};

use crate::qos::{QosClass, pod_qos_class};
use crate::quantity::{Amount, ResourceList};
use crate::resources::{may_swap, pod_requests};

/// Resources that can be changed in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];

/// What a spec asks for.
#[must_use]
pub fn resources_of(pod: &Pod) -> PodResources {
    let own = |container: &Container| container.resources.clone().unwrap_or_default();
    PodResources {
        containers: pod.containers().map(|entry| (&entry.container.name, own(entry.container))).collect(),
        pod: pod.spec.resources.clone(),
    }
}

/// Whether there is anything that could be resized.
#[must_use]
pub fn has_any(resources: &PodResources) -> bool {
    let lists = |one: &ResourceRequirements| {
        [&one.requests, &one.limits]
            .into_iter()
            .flatten()
            .any(|list| RESIZABLE.iter().any(|name| list.contains_key(*name)))
    };
    resources.containers.iter().any(|(_, own)| lists(own)) || resources.pod.as_ref().is_some_and(lists)
}

/// The pod as it was granted, if that is not what its spec asks for.
#[must_use]
pub fn granted_pod(pod: &Pod, granted: &PodResources) -> Option<Pod> {
    let differs = |container: &&Container| {
        granted
            .containers
            .get(&container.name)
            .is_some_and(|own| !same(container.resources.as_ref(), Some(own)))
    };
    let all = pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    let changed = all.clone().any(|container| differs(&container));
    let pod_changed = !same(pod.spec.resources.as_ref(), granted.pod.as_ref());
    if !changed && !pod_changed {
        return None;
    }
    let mut copy = pod.clone();
    if pod_changed {
        copy.spec.resources.clone_from(&granted.pod);
    }
    let init = copy.spec.init_containers.iter_mut().flatten();
    for container in copy.spec.containers.iter_mut().chain(init) {
        if differs(&&*container) {
            container.resources = granted.containers.get(&container.name).map(|own| (**own).clone());
        }
    }
    Some(copy)
}

/// Whether a new version of a pod asks for other CPU or memory than the one before.
#[must_use]
pub fn is_resize(old: &Pod, new: &Pod) -> bool {
    let sizes = |resources: Option<&ResourceRequirements>| {
        let list = |list: Option<&ResourceList>| RESIZABLE.map(|name| Amount::in_list(list, name));
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

/// Whether what the spec asks for is more than what was granted.
#[must_use]
pub fn is_increase(asked: &Pod, granted: &Pod) -> bool {
    let (new, old) = (pod_requests(asked), pod_requests(granted));
    RESIZABLE
        .iter()
        .any(|name| new.get(*name).copied().unwrap_or_default() > old.get(*name).copied().unwrap_or_default())
}

/// A resize that waits, with what decides its place.
#[derive(Clone, Debug)]
pub struct WaitingResize<'a> {
    /// The pod as its spec asks.
    pub asked: &'a Pod,
    /// The pod as granted.
    pub granted: &'a Pod,
    /// What is known of it.
    pub allocation: &'a PodAllocation,
}

/// Who comes first: resizes that ask for no more than they have, then by priority, Guaranteed pods, the longest wait.
#[must_use]
pub fn resize_order(one: &WaitingResize<'_>, other: &WaitingResize<'_>) -> Ordering {
    let key = |resize: &WaitingResize<'_>| {
        let pending = resize.allocation.pending.as_ref();
        (
            is_increase(resize.asked, resize.granted),
            std::cmp::Reverse(resize.asked.spec.priority.unwrap_or(0)),
            pod_qos_class(resize.asked) != QosClass::Guaranteed,
            pending.is_none(),
            pending.map(|pending| pending.since),
        )
    };
    key(one).cmp(&key(other))
}

/// Why a resize can never be granted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Infeasible {
    /// What a container may swap follows from its memory request, and cannot be changed while it runs.
    Swap,
    /// The pod's own resources are not changed on this node (`InPlacePodLevelResourcesVerticalScaling`).
    PodLevel,
}

impl Infeasible {
    /// What users are told.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Swap => "In-place resize of containers with swap is not supported.",
            Self::PodLevel => "InPlacePodLevelResourcesVerticalScaling is disabled",
        }
    }

    /// The word of `pod_infeasible_resizes_total`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Swap => "swap_limitation",
            Self::PodLevel => "plr_feature_gate_off",
        }
    }
}

/// Why a resize can never be granted here; `None` when it depends on what is free.
#[must_use]
pub fn infeasible(asked: &Pod, granted: &Pod, settings: &NodeSettings) -> Option<Infeasible> {
    let swaps = asked.containers().any(|entry| {
        let Some(before) = granted.container(&entry.container.name) else { return false };
        let request = |container: &Container| {
            Amount::in_list(container.resources.as_ref().and_then(|own| own.requests.as_ref()), "memory")
        };
        request(entry.container) != request(before.container)
            && !restarts_for(before.container, "memory")
            && (may_swap(asked, entry.container, settings) || may_swap(granted, before.container, settings))
    });
    let of_pod = || {
        !settings.gates.pod_level_resize
            && !same(asked.spec.resources.as_ref(), granted.spec.resources.as_ref())
    };
    if swaps { Some(Infeasible::Swap) } else { of_pod().then_some(Infeasible::PodLevel) }
}

/// Whether a change of that resource restarts the container.
#[must_use]
pub fn restarts_for(container: &Container, resource: &str) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    policies.any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
}

/// Whether a container of this kind is resized in place while it runs.
#[must_use]
pub fn is_resizable(kind: ContainerKind, container: &Container, gates: PodGates) -> bool {
    match kind {
        ContainerKind::Regular => true,
        ContainerKind::Init => {
            gates.init_container_resize || container.restart_policy.as_deref() == Some("Always")
        }
        ContainerKind::Ephemeral => false,
    }
}

/// Equal in amounts; nothing and an empty list are the same.
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
                    .is_some_and(|found| Amount::of(found) == Amount::of(amount))
            })
        };
        covers(one, other) && covers(other, one)
    };
    lists.into_iter().all(same_list) && claims(one) == claims(other)
}

#[cfg(test)]
mod tests;
