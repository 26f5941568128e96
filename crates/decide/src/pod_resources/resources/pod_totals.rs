//! Requests and limits of whole pods, computed like the scheduler does.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::Pod;
use values::quantity::Amount;

use super::{limits_of, requests_of};
use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::{ResourceList, amount_in, amount_of};

/// Amounts by resource name.
pub type ResourceTotals = BTreeMap<String, Amount>;

/// Requests of a pod without overhead. Pod-level requests replace the sums.
pub fn pod_requests(pod: &Pod) -> ResourceTotals {
    let mut totals = container_totals(pod, requests_of);
    replace(&mut totals, requests_of(pod.spec.resources.as_ref()));
    totals
}

/// Requests of a pod including overhead.
pub fn pod_requests_with_overhead(pod: &Pod) -> ResourceTotals {
    let mut totals = pod_requests(pod);
    add(&mut totals, pod.spec.overhead.as_ref());
    totals
}

/// Limits of a pod without overhead. Pod-level limits replace the sums.
pub fn pod_limits(pod: &Pod) -> ResourceTotals {
    let mut totals = container_totals(pod, limits_of);
    replace(&mut totals, limits_of(pod.spec.resources.as_ref()));
    totals
}

/// The limit of the pod's cgroup including overhead; `None` unless every container, or the pod itself, has one.
pub fn declared_limit(pod: &Pod, name: &str) -> Option<Amount> {
    let of_pod = amount_in(limits_of(pod.spec.resources.as_ref()), name);
    let is_declared = match pod_qos_class(pod) {
        QosClass::Guaranteed => true,
        QosClass::Burstable => of_pod.is_positive() || every_container_has(pod, name),
        QosClass::BestEffort => false,
    };
    let limit = pod_limits(pod).get(name).copied().filter(|limit| is_declared && !limit.is_zero())?;
    Some(limit + amount_in(pod.spec.overhead.as_ref(), name))
}

type ListOf = fn(Option<&ResourceRequirements>) -> Option<&ResourceList>;

/// Regular containers and sidecars run together; each init container runs together with the sidecars before it.
pub(super) fn container_totals(pod: &Pod, list_of: ListOf) -> ResourceTotals {
    let mut totals = ResourceTotals::new();
    for container in &pod.spec.containers {
        add(&mut totals, list_of(container.resources.as_ref()));
    }
    let mut sidecars = ResourceTotals::new();
    let mut peak = ResourceTotals::new();
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

/// An init container also counts as limited if a sidecar before it is.
fn every_container_has(pod: &Pod, name: &str) -> bool {
    let limit = |container: &Container| amount_in(limits_of(container.resources.as_ref()), name);
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
fn replace(totals: &mut ResourceTotals, list: Option<&ResourceList>) {
    for (name, quantity) in list.into_iter().flatten() {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with(super::HUGEPAGES_PREFIX) {
            totals.insert(name.clone(), amount_of(quantity));
        }
    }
}

fn add(totals: &mut ResourceTotals, list: Option<&ResourceList>) {
    for (name, quantity) in list.into_iter().flatten() {
        let total = totals.entry(name.clone()).or_default();
        *total = *total + amount_of(quantity);
    }
}

fn raise(totals: &mut ResourceTotals, floor: &ResourceTotals) {
    for (name, amount) in floor {
        let total = totals.entry(name.clone()).or_insert(*amount);
        *total = (*total).max(*amount);
    }
}
