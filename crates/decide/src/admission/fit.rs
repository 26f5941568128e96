use model::Pod;

use super::occupancy::{Occupancy, host_ports, requests};
use super::{AdmissionInputs, InsufficientResource, PredicateFailure};
use crate::cgroups::allocatable::allocatable;

/// Resources that every node has, in upstream's order.
const STANDARD_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The resources of which not enough is free.
pub(super) fn insufficient_resources(pod: &Pod, inputs: &AdmissionInputs<'_>) -> Vec<PredicateFailure> {
    let mut capacities = allocatable(&inputs.settings.resources);
    for (name, amount) in inputs.extended_resources {
        capacities.entry(name.clone()).or_insert(*amount);
    }
    let requests_of_pod = requests(pod);
    let mut failures = Vec::new();
    let mut check = |resource: &str, requested: i64, used: i64| {
        let capacity = capacities.get(resource).copied().unwrap_or_default();
        if requested > 0 && requested > capacity.saturating_sub(used) {
            let insufficient =
                InsufficientResource { resource: resource.to_owned(), requested, used, capacity };
            failures.push(PredicateFailure::Resource(insufficient));
        }
    };
    check("pods", 1, inputs.occupancy.count_without(&pod.uid));
    // Resources that this node does not have are managed by the cluster, and the scheduler has checked them.
    let others = requests_of_pod.keys().map(String::as_str).filter(|name| {
        !STANDARD_RESOURCES.contains(name)
            && (name.starts_with("hugepages-") || capacities.contains_key(*name))
    });
    for name in STANDARD_RESOURCES.into_iter().chain(others) {
        let requested = requests_of_pod.get(name).copied().unwrap_or_default();
        check(name, requested, inputs.occupancy.requested_without(&pod.uid, name));
    }
    failures
}

/// Checks for host ports that another pod uses.
pub(super) fn check_ports(pod: &Pod, occupancy: &Occupancy) -> Option<PredicateFailure> {
    let taken = host_ports(pod).iter().any(|port| occupancy.uses_port(&pod.uid, port));
    taken.then_some(PredicateFailure::Predicate {
        name: "NodePorts",
        description: "node(s) didn't have free ports for the requested pod ports",
    })
}
