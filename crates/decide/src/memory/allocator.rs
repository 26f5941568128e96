//! Assigns and releases memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerKind, ContainerRef, NumaMask, Pod, PodLevelManagement, PodUid, Rejection, TopologyHint,
};

use super::hints::best;
use super::requests::{Requests, of_container, qualifies};
use super::tables::{MemoryBlock, MemoryState};
use crate::cpus::EMPTY_POD_SHARED_POOL_ERROR;
use crate::pipeline::pod_actions::is_sidecar;

/// The kind that decides between hints.
const MEMORY: &str = "memory";

/// Why a container cannot get its memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    #[error("[memorymanager] failed to represent quantity as int64")]
    FractionOfByte,
    #[error(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    )]
    NotEnough,
    #[error("[memorymanager] failed to find the default preferred hint")]
    NotPreferred,
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    NotExtensible,
    #[error("[memorymanager] failed to find the extended preferred hint")]
    ExtensionNotPreferred,
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    BreaksGroup,
    #[error("pod rejected, pod has shared init containers but no {0} available for them")]
    NoneForInitContainers(String),
    #[error(
        "pod rejected, sum of exclusive container {0} requests equals pod budget, leaving no memory for shared containers"
    )]
    NoneForSharedContainers(String),
}

impl MemoryError {
    /// The rejection of the pod.
    pub fn rejection(&self) -> Rejection {
        if matches!(self, Self::NoneForInitContainers(_) | Self::NoneForSharedContainers(_)) {
            return Rejection::at_admission(EMPTY_POD_SHARED_POOL_ERROR, self.to_string());
        }
        let message = format!("Allocate failed due to {self}, which is unexpected");
        Rejection::at_admission("UnexpectedAdmissionError", message)
    }
}

/// Bytes by set of nodes and kind.
type Reusable = BTreeMap<(NumaMask, String), u64>;

/// The state of the Static policy.
#[derive(Clone, Debug)]
pub struct MemoryAllocator {
    pub(super) state: MemoryState,
    management: PodLevelManagement,
    /// Memory of init containers that later containers of the same pod may use. Only the pod that was allocated last has
    /// some.
    reusable: Option<(PodUid, Reusable)>,
}

impl MemoryAllocator {
    /// `state` must have passed [`super::MemoryPolicy::validate`].
    pub fn new(management: PodLevelManagement, state: MemoryState) -> Self {
        Self { state, management, reusable: None }
    }

    pub fn management(&self) -> PodLevelManagement {
        self.management
    }

    pub fn state(&self) -> &MemoryState {
        &self.state
    }

    /// Whether the memory of this pod's containers is managed.
    pub fn manages(&self, pod: &Pod) -> bool {
        qualifies(pod, self.management)
    }

    /// Assigns memory to one container. A container that has some keeps it.
    ///
    /// # Errors
    /// When no set of nodes has enough memory.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        entry: ContainerRef<'_>,
        hint: TopologyHint,
    ) -> Result<(), MemoryError> {
        if !qualifies(pod, self.management) {
            return Ok(());
        }
        if let Some(blocks) = self.state.of(&pod.uid, &entry.container.name) {
            let blocks = blocks.clone();
            self.update_reusable(&pod.uid, entry, &blocks);
            return Ok(());
        }
        let requests = of_container(pod, entry.container, self.management);
        let requests = requests.map_err(|_| MemoryError::FractionOfByte)?;
        if requests.is_empty() {
            // Upstream rejects the pod, although the container only shares the memory of the node.
            return Ok(());
        }
        let nodes = self.choose(pod, &requests, hint)?;
        let mut blocks = Vec::new();
        for (kind, size) in requests {
            let reused = self.reusable(&pod.uid, nodes, &kind).min(size);
            self.state.book(nodes, &kind, size - reused);
            blocks.push(MemoryBlock { nodes, kind, size });
        }
        self.update_reusable(&pod.uid, entry, &blocks);
        let containers = self.state.assignments.entry(pod.uid.clone()).or_default();
        containers.insert(entry.container.name.clone(), blocks.clone());
        self.shrink_init_blocks(pod, entry.container, &blocks);
        Ok(())
    }

    pub(super) fn choose(
        &self,
        pod: &Pod,
        requests: &Requests,
        hint: TopologyHint,
    ) -> Result<NumaMask, MemoryError> {
        // Upstream decides by the hints for `memory`, which every Guaranteed container requests.
        let hints = || if requests.contains_key(MEMORY) { self.hints(pod, requests) } else { Vec::new() };
        let mut is_preferred = hint.preferred;
        let mut nodes = match hint.nodes {
            Some(nodes) => nodes,
            None => {
                let (nodes, preferred) = best(hints()).ok_or(MemoryError::NotEnough)?;
                if hint.preferred && !preferred {
                    return Err(MemoryError::NotPreferred);
                }
                is_preferred = preferred;
                nodes
            }
        };
        let is_enough = |(kind, size): (&String, &u64)| self.state.free(nodes, kind) >= *size;
        if !requests.iter().all(is_enough) {
            let larger = hints().into_iter();
            let larger = larger.filter(|hint| hint.nodes.is_some_and(|other| nodes.is_subset(other)));
            let (extended, preferred) = best(larger).ok_or(MemoryError::NotExtensible)?;
            if is_preferred && !preferred {
                return Err(MemoryError::ExtensionNotPreferred);
            }
            nodes = extended;
        }
        if self.state.breaks_group(nodes) { Err(MemoryError::BreaksGroup) } else { Ok(nodes) }
    }

    /// Releases the memory of all containers for which `keep` returns false. Returns whether there were any.
    pub fn retain(&mut self, keep: impl Fn(&PodUid, &str) -> bool) -> bool {
        let mut released = Vec::new();
        let mut is_changed = false;
        let MemoryState { assignments, pods, .. } = &mut self.state;
        for (pod, containers) in assignments.iter_mut() {
            containers.retain(|container, blocks| {
                let keeps = keep(pod, container);
                is_changed |= !keeps;
                if !keeps && !pods.contains_key(pod) {
                    released.push(std::mem::take(blocks));
                }
                keeps
            });
        }
        assignments.retain(|_, containers| !containers.is_empty());
        // The memory of a pod is released with its last container.
        pods.retain(|pod, blocks| {
            let keeps = assignments.contains_key(pod);
            is_changed |= !keeps;
            if !keeps {
                released.push(std::mem::take(blocks));
            }
            keeps
        });
        for block in released.iter().flatten() {
            self.state.release(block);
        }
        is_changed
    }

    /// Releases the memory of init containers that ended before this container was created.
    pub fn container_created(&mut self, pod: &Pod, container: &str) -> bool {
        let init = pod.spec.init_containers.iter().flatten();
        let earlier = init.take_while(|other| other.name != container);
        let ended: Vec<&str> =
            earlier.filter(|other| !is_sidecar(other)).map(|other| other.name.as_str()).collect();
        !ended.is_empty() && self.retain(|uid, name| *uid != pod.uid || !ended.contains(&name))
    }

    pub(super) fn reusable(&self, uid: &PodUid, nodes: NumaMask, kind: &str) -> u64 {
        let own = self.reusable.as_ref().filter(|(owner, _)| owner == uid);
        own.and_then(|(_, sizes)| sizes.get(&(nodes, kind.to_owned()))).copied().unwrap_or_default()
    }

    fn update_reusable(&mut self, uid: &PodUid, entry: ContainerRef<'_>, blocks: &[MemoryBlock]) {
        let mut sizes = match self.reusable.take() {
            Some((owner, sizes)) if owner == *uid => sizes,
            Some(_) | None => Reusable::new(),
        };
        let lends = entry.kind == ContainerKind::Init && !is_sidecar(entry.container);
        for block in blocks {
            let key = (block.nodes, block.kind.clone());
            if lends {
                let size = sizes.entry(key).or_default();
                *size = (*size).max(block.size);
            } else if let Some(size) = sizes.get_mut(&key) {
                *size = size.saturating_sub(block.size);
            }
        }
        self.reusable = Some((uid.clone(), sizes));
    }

    /// The sum of all blocks stays what is booked: init containers give up what a later container reuses.
    fn shrink_init_blocks(&mut self, pod: &Pod, container: &Container, blocks: &[MemoryBlock]) {
        let Some(containers) = self.state.assignments.get_mut(&pod.uid) else { return };
        for block in blocks {
            let mut left = block.size;
            let init = pod.spec.init_containers.iter().flatten();
            for earlier in init.take_while(|other| other.name != container.name) {
                if is_sidecar(earlier) {
                    continue;
                }
                let own = containers.get_mut(&earlier.name).into_iter().flatten();
                for lent in own.filter(|lent| lent.kind == block.kind && lent.nodes == block.nodes) {
                    let reused = left.min(lent.size);
                    lent.size -= reused;
                    left -= reused;
                }
            }
        }
    }
}
