//! Topology hints: which sets of NUMA nodes can provide the CPUs of a container or pod.

use std::ops::ControlFlow;

use k8s_openapi::api::core::v1::Container;
use model::{CpuGroup, NumaMask, Pod, ProviderHints, ResourceHints, TopologyHint};
use values::cpu_set::CpuSet;

use super::allocator::CpuAllocator;
use super::combinations::for_each;
use super::requests::{exclusive_request, is_allocated_as_whole, pod_request};

/// The name of the resource in hints.
const CPU: &str = "cpu";

impl CpuAllocator {
    /// Hints for one container.
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        let request = exclusive_request(pod, container, self.management());
        if request == 0 {
            return ProviderHints::new();
        }
        if let Some(cpus) = self.assignments().of(&pod.uid, &container.name) {
            return one_of(self.hints_for_assigned(cpus, request));
        }
        let available = self.policy().available(self.assignments());
        one_of(self.hints(&available, &self.reusable_for(&pod.uid), request))
    }

    /// Hints for all containers of a pod together.
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        let request = pod_request(pod, self.management());
        if request == 0 {
            return ProviderHints::new();
        }
        if is_allocated_as_whole(pod, self.management()) {
            return one_of(self.whole_pod_hints(pod, request));
        }
        let mut assigned = CpuSet::new();
        for entry in pod.containers() {
            if let Some(cpus) = self.assignments().of(&pod.uid, &entry.container.name) {
                if cpus.len() != exclusive_request(pod, entry.container, self.management()) {
                    return one_of(Vec::new());
                }
                assigned.extend(cpus.iter());
            }
        }
        if assigned.len() == request {
            return one_of(self.hints_for_assigned(&assigned, request));
        }
        let available = self.policy().available(self.assignments());
        one_of(self.hints(&available, &self.reusable_for(&pod.uid).union(&assigned), request))
    }

    /// Empty if containers would be left without CPUs.
    fn whole_pod_hints(&self, pod: &Pod, request: usize) -> Vec<TopologyHint> {
        if self.check_shared_part(pod).is_err() {
            return Vec::new();
        }
        match self.assignments().pods.get(&pod.uid) {
            Some(own) => self.hints_for_assigned(own, request),
            None => self.hints(&self.policy().available(self.assignments()), &CpuSet::new(), request),
        }
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
                let nodes = NumaMask::of(combination.members());
                let is_in = |cpu: &u32| nodes.contains(node_of(*cpu));
                let total = topology.cpus.keys().filter(|cpu| is_in(cpu)).count();
                if total >= request {
                    minimum = minimum.min(size);
                }
                let usable = reusable.len() + available.iter().filter(is_in).count();
                if reusable.iter().all(|cpu| is_in(&cpu)) && usable >= request {
                    hints.push(nodes);
                }
                ControlFlow::Continue(())
            });
        }
        let preferred = |nodes: NumaMask| {
            usize::try_from(nodes.count()) == Ok(minimum) || self.is_socket_aligned(nodes, minimum)
        };
        let hint = |nodes| TopologyHint { nodes: Some(nodes), preferred: preferred(nodes) };
        hints.into_iter().map(hint).collect()
    }

    /// `align-by-socket`: NUMA nodes on as few sockets as possible are as good as few NUMA nodes.
    fn is_socket_aligned(&self, nodes: NumaMask, minimum: usize) -> bool {
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

fn one_of(hints: Vec<TopologyHint>) -> ProviderHints {
    ProviderHints::from([(CPU.to_owned(), ResourceHints::OneOf(hints))])
}
