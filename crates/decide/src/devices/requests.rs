//! Device requests of containers and pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::Pod;

use super::DeviceState;
use crate::pipeline::pod_actions::is_sidecar;
use crate::quantity::amount_of;

/// The limit of one resource, in whole devices. Extended resources cannot be fractions.
pub fn container_request(container: &Container, resource: &str) -> usize {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = limits.and_then(|limits| limits.get(resource));
    limit.map_or(0, |amount| usize::try_from(amount_of(amount).units()).unwrap_or(0))
}

/// The limits of a container for resources of device plugins, without those that a claim of the pod provides.
pub fn known_requests(state: &DeviceState, pod: &Pod, container: &Container) -> BTreeMap<String, usize> {
    let limits = container.resources.iter().flat_map(|resources| &resources.limits).flatten();
    let known = limits.map(|(name, _)| name);
    let known = known.filter(|name| state.manages(name) && !is_claimed(pod, container, name));
    known.map(|name| (name.clone(), container_request(container, name))).collect()
}

/// Whether the scheduler has created a claim for an extended resource of a container.
fn is_claimed(pod: &Pod, container: &Container, resource: &str) -> bool {
    let claim = pod.status.extended_resource_claim_status.as_ref();
    claim.is_some_and(|claim| {
        let mut mappings = claim.request_mappings.iter();
        mappings.any(|mapping| mapping.container_name == container.name && mapping.resource_name == resource)
    })
}

/// Requests of a pod at the same time, for resources of device plugins: all regular containers and sidecars, or an init
/// container and the sidecars that were started before it.
pub(super) fn pod_requests(state: &DeviceState, pod: &Pod) -> BTreeMap<String, usize> {
    let mut sidecars = BTreeMap::new();
    let mut highest = BTreeMap::new();
    for init in pod.spec.init_containers.iter().flatten() {
        let own = known_requests(state, pod, init);
        if is_sidecar(init) {
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            raise(&mut highest, &together);
        }
    }
    let mut regular = sidecars;
    for container in &pod.spec.containers {
        add(&mut regular, &known_requests(state, pod, container));
    }
    raise(&mut highest, &regular);
    highest
}

fn add(total: &mut BTreeMap<String, usize>, more: &BTreeMap<String, usize>) {
    for (resource, count) in more {
        let sum = total.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}

fn raise(highest: &mut BTreeMap<String, usize>, other: &BTreeMap<String, usize>) {
    for (resource, count) in other {
        let known = highest.entry(resource.clone()).or_default();
        *known = (*known).max(*count);
    }
}
