//! Memory of containers on particular NUMA nodes: the state of the Static policy of the memory manager.
//!
//! Used like [`crate::pipeline::exclusive_cpus`]: a container is created only after its memory is on disk
//! ([`PinnedMemory::flush`]). Without the policy there is no state, and every call returns at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use decide::memory::state_file::{self, MemoryFileError};
use decide::memory::{MemoryAllocator, MemoryBlock, MemoryPolicy, MemoryState, MemoryStateError};
use k8s_openapi::api::core::v1::Container;
use model::{
    ContainerRef, NumaMask, Pod, PodLevelManagement, PodUid, ProviderHints, Rejection, TopologyHint,
};
use parking_lot::Mutex;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;

use crate::metrics::Metrics;
use crate::pipeline::resource_state_file::ResourceStateFile;

/// Checkpoint of the memory, in upstream's format.
pub const MEMORY_STATE: &str = "memory_manager_state";

#[derive(Debug, thiserror::Error)]
pub enum RestoreMemoryError {
    #[error(
        "start memory manager error: could not restore state from checkpoint: {problem}, please drain this node and delete the memory manager checkpoint file {file:?} before restarting Kubelet"
    )]
    File { problem: MemoryFileError, file: PathBuf },
    #[error("start memory manager error: {0}")]
    State(#[from] MemoryStateError),
    #[error("start memory manager error: {}", .0.text())]
    Access(FileError),
}

/// Clones share their state.
#[derive(Clone, Default)]
pub struct PinnedMemory {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    allocator: Mutex<MemoryAllocator>,
    allocatable: Vec<MemoryBlock>,
    file: ResourceStateFile,
    metrics: Arc<Metrics>,
}

impl PinnedMemory {
    /// Restores the state, or writes the first one. Without a policy only the file is checked: upstream refuses to start
    /// with the state of another policy, and so must this agent, because running containers may have memory.
    ///
    /// # Errors
    /// When the file belongs to another policy or to another machine, is damaged, or cannot be accessed.
    pub async fn restore(
        files: Arc<dyn Checkpoints>,
        folder: &Path,
        policy: Option<MemoryPolicy>,
        management: PodLevelManagement,
        metrics: Arc<Metrics>,
    ) -> Result<Self, RestoreMemoryError> {
        let name = if policy.is_some() { "Static" } else { "None" };
        let stored = match files.load(MEMORY_STATE).await.map_err(RestoreMemoryError::Access)? {
            Some(content) => {
                let damaged = |problem| RestoreMemoryError::File { problem, file: folder.join(MEMORY_STATE) };
                Some(state_file::decode(name, management, &content).map_err(damaged)?)
            }
            None => None,
        };
        let state = match &policy {
            Some(policy) => policy.validate(stored.clone().unwrap_or_default())?,
            None => stored.clone().unwrap_or_default(),
        };
        if stored.as_ref() != Some(&state) {
            let content = state_file::encode(name, management, &state);
            files.save(MEMORY_STATE, content).await.map_err(RestoreMemoryError::Access)?;
        }
        if policy.is_none() {
            return Ok(Self::default());
        }
        tracing::info!(numa_nodes = state.nodes.len(), "Static memory policy is active");
        let shared = Shared {
            allocatable: allocatable(&state),
            allocator: Mutex::new(MemoryAllocator::new(management, state)),
            file: ResourceStateFile::new(files, MEMORY_STATE),
            metrics,
        };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// Topology hints for one container. Empty without the Static policy.
    #[must_use]
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        self.read(|allocator| allocator.container_hints(pod, container))
    }

    /// Topology hints for all containers of a pod together.
    #[must_use]
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.read(|allocator| allocator.pod_hints(pod))
    }

    /// Allocates the memory of a container. A container that has memory keeps it.
    ///
    /// # Errors
    /// When the NUMA nodes do not have enough free memory.
    pub fn allocate(&self, pod: &Pod, entry: ContainerRef<'_>, hint: TopologyHint) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let is_managed = shared.allocator.lock().manages(pod);
        let result = shared.change(|allocator| {
            let before = allocator.state().of(&pod.uid, &entry.container.name).is_some();
            let result = allocator.allocate(pod, entry, hint);
            let is_new = !before && allocator.state().of(&pod.uid, &entry.container.name).is_some();
            result.map(|()| is_new)
        });
        if is_managed {
            shared.metrics.memory.allocated(result.is_err());
            if shared.counts_sources() {
                let containers = u64::from(matches!(result, Ok(true)));
                shared.metrics.resource_managers.node_allocated("memory", containers, result.is_err());
            }
        }
        result.map(|_| ()).map_err(|error| error.rejection())
    }

    /// Allocates memory to a pod as a whole, and divides it among its containers. A pod that has memory keeps it.
    ///
    /// # Errors
    /// When the NUMA nodes do not have enough free memory, or when containers would be left without.
    pub fn allocate_whole_pod(&self, pod: &Pod, hint: TopologyHint) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        if !shared.allocator.lock().manages(pod) {
            return Ok(());
        }
        let result = shared.change(|allocator| allocator.allocate_whole_pod(pod, hint));
        shared.metrics.memory.allocated(result.is_err());
        let report = result.as_ref().copied().unwrap_or_default();
        let metrics = &shared.metrics.resource_managers;
        metrics.pod_allocated("memory", (report.exclusive, report.shared), result.is_err());
        result.map(|_| ()).map_err(|error| error.rejection())
    }

    /// The containers of a pod that have memory.
    #[must_use]
    pub fn owners(&self, uid: &PodUid) -> BTreeSet<String> {
        self.read(|allocator| {
            let own = allocator.state().assignments.get(uid);
            own.map(|own| own.keys().cloned().collect()).unwrap_or_default()
        })
    }

    /// Releases the memory of all containers for which `keep` returns false.
    pub fn retain(&self, keep: impl Fn(&PodUid, &str) -> bool) {
        if let Some(shared) = &self.shared {
            shared.change(|allocator| allocator.retain(keep));
        }
    }

    /// Releases the memory of init containers that ended before this container was created, like upstream.
    pub fn container_created(&self, pod: &Pod, container: &str) {
        if let Some(shared) = &self.shared {
            shared.change(|allocator| allocator.container_created(pod, container));
        }
    }

    /// The memory of a container.
    #[must_use]
    pub fn blocks(&self, uid: &PodUid, container: &str) -> Vec<MemoryBlock> {
        self.read(|allocator| allocator.state().of(uid, container).cloned().unwrap_or_default())
    }

    /// The NUMA nodes of a container's memory; `None` if it can be anywhere.
    #[must_use]
    pub fn nodes(&self, uid: &PodUid, container: &str) -> Option<NumaMask> {
        let mut blocks = self.blocks(uid, container);
        if blocks.is_empty() {
            // Init containers give up their part, but can run again, and stay with their pod.
            blocks = self.read(|allocator| allocator.state().pods.get(uid).cloned().unwrap_or_default());
        }
        let nodes = blocks.iter().fold(NumaMask::EMPTY, |all, block| all.union(block.nodes));
        Some(nodes).filter(|nodes| !nodes.is_empty())
    }

    /// Memory that containers can have.
    #[must_use]
    pub fn allocatable(&self) -> Vec<MemoryBlock> {
        self.shared.as_ref().map(|shared| shared.allocatable.clone()).unwrap_or_default()
    }

    /// Waits for the next change that is not saved.
    pub async fn changed(&self) {
        match &self.shared {
            Some(shared) => shared.file.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until all changes are on disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn flush(&self) -> Result<(), FileError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let encode = || {
            let allocator = shared.allocator.lock();
            state_file::encode("Static", allocator.management(), allocator.state())
        };
        shared.file.flush(encode).await
    }

    fn read<T: Default>(&self, read: impl FnOnce(&MemoryAllocator) -> T) -> T {
        self.shared.as_ref().map(|shared| read(&shared.allocator.lock())).unwrap_or_default()
    }
}

impl Shared {
    /// Upstream has the metrics of both managers only with the gate.
    fn counts_sources(&self) -> bool {
        self.allocator.lock().management().is_managed()
    }

    fn change<T>(&self, change: impl FnOnce(&mut MemoryAllocator) -> T) -> T {
        let mut allocator = self.allocator.lock();
        let before = allocator.state().clone();
        let result = change(&mut allocator);
        if *allocator.state() != before {
            self.file.mark_changed();
        }
        result
    }
}

fn allocatable(state: &MemoryState) -> Vec<MemoryBlock> {
    let mut found = Vec::new();
    for (id, memory) in &state.nodes {
        for (kind, table) in memory.tables.iter().filter(|(_, table)| table.allocatable > 0) {
            let (nodes, kind) = (NumaMask::of([*id]), kind.clone());
            found.push(MemoryBlock { nodes, kind, size: table.allocatable });
        }
    }
    found
}

#[cfg(test)]
mod tests;
