//! Topology hints: which sets of NUMA nodes can provide the CPUs of a container or pod.

use std::ops::ControlFlow;

use k8s_openapi::api::core::v1::Container;
use model::{CpuGroup, Pod};
use values::cpu_set::CpuSet;

use super::allocator::CpuAllocator;
use super::combinations::for_each;
use super::requests::{exclusive_request, pod_request};

/// A set of NUMA nodes, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumaNodes(Vec<i32>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyHint {
    pub nodes: NumaNodes,
    /// Whether no smaller set of NUMA nodes would do.
    pub preferred: bool,
}

impl NumaNodes {
    pub fn new(mut nodes: Vec<i32>) -> Self {
        nodes.sort_unstable();
        nodes.dedup();
        Self(nodes)
    }

    pub fn contains(&self, node: i32) -> bool {
        self.0.binary_search(&node).is_ok()
    }

    pub fn as_slice(&self) -> &[i32] {
        &self.0
    }
}

impl CpuAllocator {
    /// Hints for one container; `None` if it has no preference, an empty list if no placement is possible.
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> Option<Vec<TopologyHint>> {
        let request = exclusive_request(pod, container);
        if request == 0 {
            return None;
        }
        if let Some(cpus) = self.assignments().of(&pod.uid, &container.name) {
            return Some(self.hints_for_assigned(cpus, request));
        }
        let available = self.policy().available(self.assignments());
        Some(self.hints(&available, &self.reusable_for(&pod.uid), request))
    }

    /// Hints for all containers of a pod together.
    pub fn pod_hints(&self, pod: &Pod) -> Option<Vec<TopologyHint>> {
        let request = pod_request(pod);
        if request == 0 {
            return None;
        }
        let mut assigned = CpuSet::new();
        for entry in pod.containers() {
            if let Some(cpus) = self.assignments().of(&pod.uid, &entry.container.name) {
                if cpus.len() != exclusive_request(pod, entry.container) {
                    return Some(Vec::new());
                }
                assigned.extend(cpus.iter());
            }
        }
        if assigned.len() == request {
            return Some(self.hints_for_assigned(&assigned, request));
        }
        let available = self.policy().available(self.assignments());
        Some(self.hints(&available, &self.reusable_for(&pod.uid).union(&assigned), request))
    }

    fn hints_for_assigned(&self, cpus: &CpuSet, request: usize) -> Vec<TopologyHint> {
        if cpus.len() == request { self.hints(cpus, &CpuSet::new(), request) } else { Vec::new() }
    }

    /// Every set of NUMA nodes that contains all reusable CPUs and enough available ones.
    fn hints(&self, available: &CpuSet, reusable: &CpuSet, request: usize) -> Vec<TopologyHint> {
        let topology = self.policy().topology();
        let all = topology.ids(CpuGroup::NumaNode);
        let node_of = |cpu| topology.cpus.get(&cpu).map_or(0, |location| location.numa_node);
        let mut minimum = all.len();
        let mut hints = Vec::new();
        for size in 1..=all.len() {
            let _ = for_each(&all, size, &mut |combination| {
                let nodes = NumaNodes(combination.members());
                let is_in = |cpu: &u32| nodes.contains(node_of(*cpu));
                let total = topology.cpus.keys().filter(|cpu| is_in(cpu)).count();
                if total >= request {
                    minimum = minimum.min(size);
                }
                let usable = reusable.len() + available.iter().filter(is_in).count();
                if reusable.iter().all(|cpu| is_in(&cpu)) && usable >= request {
                    hints.push(TopologyHint { nodes, preferred: false });
                }
                ControlFlow::Continue(())
            });
        }
        for hint in &mut hints {
            hint.preferred = hint.nodes.0.len() == minimum || self.is_socket_aligned(&hint.nodes, minimum);
        }
        hints
    }

    /// `align-by-socket`: NUMA nodes on as few sockets as possible are as good as few NUMA nodes.
    fn is_socket_aligned(&self, nodes: &NumaNodes, minimum: usize) -> bool {
        let topology = self.policy().topology();
        let all_nodes = topology.ids(CpuGroup::NumaNode).len();
        let per_socket = all_nodes.checked_div(topology.socket_count).unwrap_or(0);
        if !self.policy().options().align_by_socket || per_socket == 0 {
            return false;
        }
        let locations = topology.cpus.values().filter(|location| nodes.contains(location.numa_node));
        let mut sockets: Vec<i32> = locations.map(|location| location.socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        sockets.len() == minimum.div_ceil(per_socket)
    }
}
