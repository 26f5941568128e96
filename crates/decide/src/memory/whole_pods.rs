//! Memory of pods with pod-level resources: a pod owns memory as a whole, and its containers get parts of it.

use std::collections::BTreeMap;

use model::{NumaMask, Pod, TopologyHint};

use super::allocator::{MemoryAllocator, MemoryError};
use super::requests::{Requests, of_container, of_whole_pod, qualifies};
use super::tables::MemoryBlock;
use crate::pipeline::pod_actions::is_sidecar;

/// How many containers got memory, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholePodReport {
    pub exclusive: u64,
    /// Containers that share the rest of their pod's memory.
    pub shared: u64,
}

impl MemoryAllocator {
    /// Assigns memory to a pod as a whole, and divides it among its containers. A pod that has memory keeps it; upstream
    /// would assign more after its restart (kubernetes#140989).
    ///
    /// # Errors
    /// When no set of nodes has enough memory, or when containers would be left without. Nothing has changed then.
    pub fn allocate_whole_pod(
        &mut self,
        pod: &Pod,
        hint: TopologyHint,
    ) -> Result<WholePodReport, MemoryError> {
        // Like upstream, which leaves pods that request parts of a byte anywhere.
        let Ok(total) = of_whole_pod(pod) else { return Ok(WholePodReport::default()) };
        if !qualifies(pod, self.management()) || self.state.pods.contains_key(&pod.uid) {
            return Ok(WholePodReport::default());
        }
        self.check_shared_part(pod, &total)?;
        let mut after = self.clone();
        // Containers that were allocated one by one, under another scope, give their memory back.
        after.retain(|uid, _| *uid != pod.uid);
        let nodes = after.choose(pod, &total, hint)?;
        let (containers, report) = self.divide(pod, &total, nodes)?;
        for (kind, size) in &total {
            after.state.book(nodes, kind, *size);
        }
        after.state.pods.insert(pod.uid.clone(), blocks(&total, nodes));
        after.state.assignments.insert(pod.uid.clone(), containers);
        *self = after;
        Ok(report)
    }

    /// Sidecars and regular containers with requests keep their memory for the life of the pod. Init containers use what
    /// earlier sidecars leave, and all others share the rest.
    fn divide(
        &self,
        pod: &Pod,
        total: &Requests,
        nodes: NumaMask,
    ) -> Result<(BTreeMap<String, Vec<MemoryBlock>>, WholePodReport), MemoryError> {
        let mut by_container = BTreeMap::new();
        let mut report = WholePodReport::default();
        let mut left = total.clone();
        for entry in pod.containers() {
            let container = entry.container;
            let requests = self.requests(pod, container)?;
            let is_init = entry.kind == model::ContainerKind::Init && !is_sidecar(container);
            if requests.is_empty() {
                report.shared += 1;
                if is_init {
                    by_container.insert(container.name.clone(), blocks(&left, nodes));
                }
                continue;
            }
            report.exclusive += 1;
            by_container.insert(container.name.clone(), blocks(&requests, nodes));
            if !is_init {
                for (kind, size) in requests {
                    if let Some(rest) = left.get_mut(&kind) {
                        *rest = rest.saturating_sub(size);
                    }
                }
            }
        }
        for entry in pod.containers() {
            by_container.entry(entry.container.name.clone()).or_insert_with(|| blocks(&left, nodes));
        }
        Ok((by_container, report))
    }

    /// Containers without requests must not be left without memory.
    pub(super) fn check_shared_part(&self, pod: &Pod, total: &Requests) -> Result<(), MemoryError> {
        let (mut exclusive, mut has_shared) = (Requests::new(), false);
        for entry in pod.containers() {
            let requests = self.requests(pod, entry.container)?;
            if entry.kind == model::ContainerKind::Init && !is_sidecar(entry.container) {
                if let Some(kind) = used_up(total, &exclusive).filter(|_| requests.is_empty()) {
                    return Err(MemoryError::NoneForInitContainers(kind));
                }
                continue;
            }
            has_shared |= requests.is_empty();
            for (kind, size) in requests {
                let sum = exclusive.entry(kind).or_default();
                *sum = sum.saturating_add(size);
            }
        }
        match used_up(total, &exclusive).filter(|_| has_shared) {
            Some(kind) => Err(MemoryError::NoneForSharedContainers(kind)),
            None => Ok(()),
        }
    }

    fn requests(
        &self,
        pod: &Pod,
        container: &k8s_openapi::api::core::v1::Container,
    ) -> Result<Requests, MemoryError> {
        of_container(pod, container, self.management()).map_err(|_| MemoryError::FractionOfByte)
    }
}

/// A kind of which nothing is left.
fn used_up(total: &Requests, used: &Requests) -> Option<String> {
    let is_used = |(kind, size): &(&String, &u64)| used.get(*kind).copied().unwrap_or_default() >= **size;
    total.iter().find(is_used).map(|(kind, _)| kind.clone())
}

fn blocks(sizes: &Requests, nodes: NumaMask) -> Vec<MemoryBlock> {
    let own = sizes.iter().filter(|(_, size)| **size > 0);
    own.map(|(kind, size)| MemoryBlock { nodes, kind: kind.clone(), size: *size }).collect()
}
