//! Sums over a pod's containers, as the scheduler counts them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::Pod;

use super::{limits_of, requests_of};
use crate::qos::{QosClass, pod_qos_class};
use crate::quantity::{Amount, ResourceList};

/// Amounts by resource name.
pub type Totals = BTreeMap<String, Amount>;

/// What the pod requests, without overhead. Pod-level requests replace the sums.
#[must_use]
pub fn pod_requests(pod: &Pod) -> Totals {
    let mut totals = container_totals(pod, requests_of);
    replace(&mut totals, requests_of(pod.spec.resources.as_ref()));
    totals
}

/// What the pod is limited to, without overhead. Pod-level limits replace the sums.
#[must_use]
pub fn pod_limits(pod: &Pod) -> Totals {
    let mut totals = container_totals(pod, limits_of);
    replace(&mut totals, limits_of(pod.spec.resources.as_ref()));
    totals
}

/// The memory limit of the pod's cgroup in bytes: `None` unless every container, or the pod itself, has one.
#[must_use]
pub fn pod_memory_limit(pod: &Pod) -> Option<i64> {
    declared_limit(pod, "memory").map(Amount::units)
}

/// The limit of the pod's cgroup, overhead included: `None` unless every container, or the pod itself, has one.
#[must_use]
pub fn declared_limit(pod: &Pod, name: &str) -> Option<Amount> {
    let of_pod = Amount::in_list(limits_of(pod.spec.resources.as_ref()), name);
    let is_declared = match pod_qos_class(pod) {
        QosClass::Guaranteed => true,
        QosClass::Burstable => of_pod.is_positive() || every_container_has(pod, name),
        QosClass::BestEffort => false,
    };
    let limit = pod_limits(pod).get(name).copied().filter(|limit| is_declared && !limit.is_zero())?;
    Some(limit + Amount::in_list(pod.spec.overhead.as_ref(), name))
}

type ListOf = fn(Option<&ResourceRequirements>) -> Option<&ResourceList>;

/// Regular containers and sidecars run together; each init container runs beside the sidecars before it.
pub(super) fn container_totals(pod: &Pod, list_of: ListOf) -> Totals {
    let mut totals = Totals::new();
    for container in &pod.spec.containers {
        add(&mut totals, list_of(container.resources.as_ref()));
    }
    let mut sidecars = Totals::new();
    let mut peak = Totals::new();
    for container in pod.spec.init_containers.iter().flatten() {
        let list = list_of(container.resources.as_ref());
        if is_sidecar(container) {
            add(&mut totals, list);
            add(&mut sidecars, list);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, list);
            raise(&mut peak, &together);
        }
    }
    raise(&mut totals, &peak);
    totals
}

/// Whether an init container keeps running beside the others.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Init containers also count what the sidecars before them are limited to.
fn every_container_has(pod: &Pod, name: &str) -> bool {
    let limit = |container: &Container| Amount::in_list(limits_of(container.resources.as_ref()), name);
    let mut sidecars = Amount::ZERO;
    let init = pod.spec.init_containers.iter().flatten().all(|container| {
        let together = sidecars + limit(container);
        if is_sidecar(container) {
            sidecars = together;
        }
        !together.is_zero()
    });
    init && pod.spec.containers.iter().all(|container| !limit(container).is_zero())
}

/// Pod-level resources exist for CPU, memory and hugepages only.
fn replace(totals: &mut Totals, list: Option<&ResourceList>) {
    for (name, quantity) in list.into_iter().flatten() {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with(super::HUGEPAGES_PREFIX) {
            totals.insert(name.clone(), Amount::of(quantity));
        }
    }
}

fn add(totals: &mut Totals, list: Option<&ResourceList>) {
    for (name, quantity) in list.into_iter().flatten() {
        let total = totals.entry(name.clone()).or_default();
        *total = *total + Amount::of(quantity);
    }
}

fn raise(totals: &mut Totals, floor: &Totals) {
    for (name, amount) in floor {
        let total = totals.entry(name.clone()).or_insert(*amount);
        *total = (*total).max(*amount);
    }
}
