//! How much memory a container or a pod requests, by kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::{Pod, PodLevelManagement};

use crate::cpus::{has_pod_level_resources, is_allocated_as_whole, is_guaranteed};
use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::amount_of;

/// Bytes by resource name.
pub(super) type Requests = BTreeMap<String, u64>;

/// A request is not a whole number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FractionOfByte;

/// Only Guaranteed pods have memory on particular nodes.
pub(super) fn qualifies(pod: &Pod, management: PodLevelManagement) -> bool {
    pod_qos_class(pod) == QosClass::Guaranteed && (management.is_managed() || !has_pod_level_resources(pod))
}

/// Empty if the container shares the memory of the node or of its pod.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    management: PodLevelManagement,
) -> Result<Requests, FractionOfByte> {
    if management.is_managed() && has_pod_level_resources(pod) && !is_guaranteed(container) {
        return Ok(Requests::new());
    }
    of_resources(container.resources.as_ref())
}

/// Memory that a pod with pod-level resources owns as a whole.
pub(super) fn of_whole_pod(pod: &Pod) -> Result<Requests, FractionOfByte> {
    let mut requests = of_resources(pod.spec.resources.as_ref())?;
    requests.retain(|_, size| *size > 0);
    Ok(requests)
}

fn of_resources(resources: Option<&ResourceRequirements>) -> Result<Requests, FractionOfByte> {
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let memory = requests.into_iter().flatten().filter(|(name, _)| is_memory(name));
    memory
        .map(|(name, quantity)| {
            let amount = amount_of(quantity);
            let nanos = amount.exact_nanos().ok_or(FractionOfByte)?;
            let is_whole = nanos % 1_000_000_000 == 0;
            let bytes = u64::try_from(amount.units()).ok().filter(|_| is_whole).ok_or(FractionOfByte)?;
            Ok((name.clone(), bytes))
        })
        .collect()
}

/// The most that the containers of a pod have at the same time. Kinds that no regular container requests are left out.
pub(super) fn of_pod(pod: &Pod, management: PodLevelManagement) -> Result<Requests, FractionOfByte> {
    if is_allocated_as_whole(pod, management) {
        return of_whole_pod(pod);
    }
    let of_container = |container| of_container(pod, container, management);
    let (mut init_peak, mut sidecars, mut regular) = (Requests::new(), Requests::new(), Requests::new());
    for container in pod.spec.init_containers.iter().flatten() {
        for (kind, size) in of_container(container)? {
            let of_sidecars = sidecars.entry(kind.clone()).or_default();
            if is_sidecar(container) {
                *of_sidecars = of_sidecars.saturating_add(size);
            } else {
                let peak = init_peak.entry(kind).or_default();
                *peak = (*peak).max(of_sidecars.saturating_add(size));
            }
        }
    }
    for container in &pod.spec.containers {
        for (kind, size) in of_container(container)? {
            let sum = regular.entry(kind).or_default();
            *sum = sum.saturating_add(size);
        }
    }
    let amount = |requests: &Requests, kind: &String| requests.get(kind).copied().unwrap_or_default();
    Ok(regular
        .into_iter()
        .map(|(kind, size)| {
            let running = size.saturating_add(amount(&sidecars, &kind));
            let peak = amount(&init_peak, &kind);
            (kind, running.max(peak))
        })
        .collect())
}

fn is_memory(name: &str) -> bool {
    name == "memory" || name.starts_with("hugepages-")
}
