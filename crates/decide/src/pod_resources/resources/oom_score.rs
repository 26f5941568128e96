//! `oom_score_adj` of containers.

use k8s_openapi::api::core::v1::Container;
use model::Pod;

use super::pod_totals::container_totals;
use super::requests_of;
use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::critical_pods::is_node_critical;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::amount_in;

const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    match pod_qos_class(pod) {
        _ if is_node_critical(pod) => GUARANTEED,
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => burstable(pod, container, memory_capacity),
    }
}

/// The more memory a container requests, the lower its score. Scores lie between those of the other classes.
fn burstable(pod: &Pod, container: &Container, memory_capacity: u64) -> i64 {
    let capacity = i64::try_from(memory_capacity).unwrap_or(i64::MAX).max(1);
    let share = unclaimed_share(pod);
    let score = |request: i64| 1000 - 1000_i64.saturating_mul(request.saturating_add(share)) / capacity;
    let own = score(memory_request(container));
    let is_sidecar = is_sidecar(container)
        && pod.spec.init_containers.iter().flatten().any(|other| other.name == container.name);
    // A sidecar must not be killed before the regular containers.
    let least = pod.spec.containers.iter().map(memory_request).min().filter(|_| is_sidecar);
    least.map_or(own, |least| own.min(score(least))).clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
}

/// Share per container of the pod-level memory request that no container requests.
fn unclaimed_share(pod: &Pod) -> i64 {
    let of_pod = amount_in(requests_of(pod.spec.resources.as_ref()), "memory");
    if of_pod.is_zero() {
        return 0;
    }
    let count = pod.spec.containers.len() + pod.spec.init_containers.as_ref().map_or(0, Vec::len);
    let claimed = container_totals(pod, requests_of).get("memory").copied().unwrap_or_default();
    of_pod.units().saturating_sub(claimed.units()) / i64::try_from(count).unwrap_or(i64::MAX).max(1)
}

fn memory_request(container: &Container) -> i64 {
    amount_in(requests_of(container.resources.as_ref()), "memory").units()
}
