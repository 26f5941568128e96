//! Topology hints: which sets of NUMA nodes can provide the memory of a container or pod.

use k8s_openapi::api::core::v1::Container;
use model::{NumaMask, Pod, ProviderHints, ResourceHints, TopologyHint};

use super::allocator::MemoryAllocator;
use super::requests::{Requests, of_container, of_pod, qualifies};
use super::tables::MemoryBlock;
use crate::cpus::is_allocated_as_whole;

impl MemoryAllocator {
    /// Hints for one container. Empty also if no set of nodes has enough memory: the allocation then fails.
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        let Ok(requests) = of_container(pod, container, self.management()) else {
            return ProviderHints::new();
        };
        if !qualifies(pod, self.management()) || requests.is_empty() {
            return ProviderHints::new();
        }
        match self.state().of(&pod.uid, &container.name) {
            Some(blocks) => hints_for_assigned(blocks, &requests),
            None => self.provider_hints(pod, &requests),
        }
    }

    /// Hints for all containers of a pod together.
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        let Ok(requests) = of_pod(pod, self.management()) else { return ProviderHints::new() };
        if !qualifies(pod, self.management()) || requests.is_empty() {
            return ProviderHints::new();
        }
        if is_allocated_as_whole(pod, self.management()) {
            return self.whole_pod_hints(pod, &requests);
        }
        let mut containers = pod.containers().map(|entry| &entry.container.name);
        // Like upstream, which compares the blocks of one container with the requests of the pod.
        match containers.find_map(|name| self.state().of(&pod.uid, name)) {
            Some(blocks) => hints_for_assigned(blocks, &requests),
            None => self.provider_hints(pod, &requests),
        }
    }

    /// Impossible if containers would be left without memory.
    fn whole_pod_hints(&self, pod: &Pod, requests: &Requests) -> ProviderHints {
        if self.check_shared_part(pod, requests).is_err() {
            let impossible = |kind: &String| (kind.clone(), ResourceHints::OneOf(Vec::new()));
            return requests.keys().map(impossible).collect();
        }
        match self.state().pods.get(&pod.uid) {
            Some(blocks) => hints_for_assigned(blocks, requests),
            None => self.provider_hints(pod, requests),
        }
    }

    fn provider_hints(&self, pod: &Pod, requests: &Requests) -> ProviderHints {
        let hints = self.hints(pod, requests);
        if hints.is_empty() {
            return ProviderHints::new();
        }
        requests.keys().map(|kind| (kind.clone(), ResourceHints::OneOf(hints.clone()))).collect()
    }

    /// Every set of nodes with enough memory of all kinds that does not break a group.
    pub(super) fn hints(&self, pod: &Pod, requests: &Requests) -> Vec<TopologyHint> {
        let state = self.state();
        let all: Vec<i32> = state.nodes.keys().copied().collect();
        let mut minimum = all.len();
        let mut found = Vec::new();
        let has = |amount: &dyn Fn(&str) -> u64| requests.iter().all(|(kind, size)| amount(kind) >= *size);
        for (size, nodes) in subsets(&all) {
            if !has(&|kind| state.allocatable(nodes, kind)) {
                continue;
            }
            minimum = minimum.min(size);
            let first = nodes.nodes().next().and_then(|node| state.nodes.get(&node));
            let is_part_of_group = size == 1 && first.is_some_and(|memory| memory.group.count() > 1);
            if is_part_of_group || state.breaks_group(nodes) {
                continue;
            }
            let reusable = |kind: &str| self.reusable(&pod.uid, nodes, kind);
            if has(&|kind| state.free(nodes, kind).saturating_add(reusable(kind))) {
                found.push((size, nodes));
            }
        }
        let hint = |(size, nodes)| TopologyHint { nodes: Some(nodes), preferred: size == minimum };
        found.into_iter().map(hint).collect()
    }
}

/// The best of some hints: preferred, then fewest nodes, then the lowest ones.
pub(super) fn best(hints: impl IntoIterator<Item = TopologyHint>) -> Option<(NumaMask, bool)> {
    let known = hints.into_iter().filter_map(|hint| Some((hint.nodes?, hint.preferred)));
    known.min_by_key(|(nodes, preferred)| (!preferred, nodes.count(), nodes.bits()))
}

/// A container keeps its blocks, unless it requests something else now.
fn hints_for_assigned(blocks: &[MemoryBlock], requests: &Requests) -> ProviderHints {
    let is_same = |block: &MemoryBlock| requests.get(&block.kind) == Some(&block.size);
    if blocks.len() != requests.len() || !blocks.iter().all(is_same) {
        return ProviderHints::new();
    }
    let hint = |block: &MemoryBlock| TopologyHint { nodes: Some(block.nodes), preferred: true };
    blocks.iter().map(|block| (block.kind.clone(), ResourceHints::OneOf(vec![hint(block)]))).collect()
}

/// All sets of nodes that are not empty, with their sizes. The number of nodes is limited by the topology manager.
fn subsets(nodes: &[i32]) -> impl Iterator<Item = (usize, NumaMask)> {
    let count = 1_u64.checked_shl(u32::try_from(nodes.len()).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
    (1..count).map(|chosen| {
        let is_chosen = |(index, node): (usize, &i32)| (chosen >> index & 1 == 1).then_some(*node);
        let mask = NumaMask::of(nodes.iter().enumerate().filter_map(is_chosen));
        (usize::try_from(chosen.count_ones()).unwrap_or(usize::MAX), mask)
    })
}
