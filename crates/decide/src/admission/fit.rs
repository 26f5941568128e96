use model::Pod;

use super::occupancy::{Occupancy, host_ports, requests};
use super::{Misfit, Node, Shortage};
use crate::allocatable::allocatable;

/// Resources every node has, in upstream's order.
const PLAIN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The resources of which too little is left.
pub(super) fn shortages(pod: &Pod, node: &Node<'_>) -> Vec<Misfit> {
    let mut there = allocatable(&node.settings.resources);
    for (name, amount) in node.announced {
        there.entry(name.clone()).or_insert(*amount);
    }
    let wanted = requests(pod);
    let mut misfits = Vec::new();
    let mut check = |resource: &str, requested: i64, used: i64| {
        let capacity = there.get(resource).copied().unwrap_or_default();
        if requested > 0 && requested > capacity.saturating_sub(used) {
            let shortage = Shortage { resource: resource.to_owned(), requested, used, capacity };
            misfits.push(Misfit::Resource(shortage));
        }
    };
    check("pods", 1, node.occupancy.count_without(&pod.uid));
    // Resources that the node does not know belong to the cluster; who placed the pod has seen to them.
    let others = wanted.keys().map(String::as_str).filter(|name| {
        !PLAIN.contains(name) && (name.starts_with("hugepages-") || there.contains_key(*name))
    });
    for name in PLAIN.into_iter().chain(others) {
        let requested = wanted.get(name).copied().unwrap_or_default();
        check(name, requested, node.occupancy.requested_without(&pod.uid, name));
    }
    misfits
}

/// Host ports that another pod holds.
pub(super) fn check_ports(pod: &Pod, occupancy: &Occupancy) -> Option<Misfit> {
    let taken = host_ports(pod).iter().any(|port| occupancy.uses_port(&pod.uid, port));
    taken.then_some(Misfit::Predicate {
        name: "NodePorts",
        description: "node(s) didn't have free ports for the requested pod ports",
    })
}
