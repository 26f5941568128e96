//! Exclusive CPUs of containers: the state of the static CPU policy.
//!
//! The sync loop allocates and releases CPUs, the pod runtime reads the CPUs of a container that it creates, and the CPU
//! reconciler saves the state and updates running containers. A container is created only after its CPUs are on disk
//! ([`ExclusiveCpus::flush`]). Without the policy there is no state, and every call returns at once.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use decide::cpus::state_file::{self, StateFileError};
use decide::cpus::{AllocationReport, CpuAllocator, CpuAssignments, StateError, StaticPolicy};
use k8s_openapi::api::core::v1::Container;
use model::{ContainerRef, NumaMask, Pod, PodLevelManagement, PodUid, ProviderHints, Rejection};
use parking_lot::Mutex;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use values::cpu_set::CpuSet;

use crate::metrics::Metrics;
use crate::pipeline::resource_state_file::ResourceStateFile;

/// Checkpoint of the CPUs, in upstream's format.
pub const CPU_STATE: &str = "cpu_manager_state";

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "start cpu manager error: could not restore state from checkpoint: {problem}, please drain this node and delete the CPU manager checkpoint file {file:?} before restarting Kubelet"
    )]
    File { problem: StateFileError, file: PathBuf },
    #[error("start cpu manager error: {0}")]
    State(#[from] StateError),
    #[error("start cpu manager error: {}", .0.text())]
    Access(FileError),
}

/// Clones share their state.
#[derive(Clone, Default)]
pub struct ExclusiveCpus {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    allocator: Mutex<CpuAllocator>,
    file: ResourceStateFile,
    metrics: Arc<Metrics>,
}

impl ExclusiveCpus {
    /// Restores the state, or writes the first one. Without a policy only the file is checked: upstream refuses to start with
    /// the state of another policy, and so must this agent, because running containers may own CPUs.
    ///
    /// # Errors
    /// When the file belongs to another policy or to another machine, is damaged, or cannot be accessed.
    pub async fn restore(
        files: Arc<dyn Checkpoints>,
        folder: &std::path::Path,
        policy: Option<StaticPolicy>,
        management: PodLevelManagement,
        metrics: Arc<Metrics>,
    ) -> Result<Self, RestoreError> {
        let name = if policy.is_some() { "static" } else { "none" };
        let stored = match files.load(CPU_STATE).await.map_err(RestoreError::Access)? {
            Some(content) => {
                let decoded = state_file::decode(name, management, &content);
                Some(
                    decoded
                        .map_err(|problem| RestoreError::File { problem, file: folder.join(CPU_STATE) })?,
                )
            }
            None => None,
        };
        let assignments = match &policy {
            Some(policy) => policy.validate(stored.clone().unwrap_or_default())?,
            None => stored.clone().unwrap_or_default(),
        };
        if stored.as_ref() != Some(&assignments) {
            let content = state_file::encode(name, management, &assignments);
            files.save(CPU_STATE, content).await.map_err(RestoreError::Access)?;
        }
        let Some(policy) = policy else { return Ok(Self::default()) };
        tracing::info!(reserved = %policy.reserved(), shared = %assignments.shared, "static CPU policy is active");
        metrics.cpus.policy_started();
        let allocator = CpuAllocator::new(policy, management, assignments);
        metrics.cpus.show(&allocator);
        let shared = Shared {
            allocator: Mutex::new(allocator),
            file: ResourceStateFile::new(files, CPU_STATE),
            metrics,
        };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// Topology hints for one container. Empty without the static policy.
    #[must_use]
    pub fn container_hints(&self, pod: &Pod, container: &Container) -> ProviderHints {
        self.hints(|allocator| allocator.container_hints(pod, container))
    }

    /// Topology hints for all containers of a pod together.
    #[must_use]
    pub fn pod_hints(&self, pod: &Pod) -> ProviderHints {
        self.hints(|allocator| allocator.pod_hints(pod))
    }

    /// Allocates the CPUs of a container, those of `nodes` first. A container that has CPUs keeps them.
    ///
    /// # Errors
    /// When the CPUs are not free.
    pub fn allocate(
        &self,
        pod: &Pod,
        container: ContainerRef<'_>,
        nodes: Option<NumaMask>,
    ) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut report = AllocationReport::default();
        let result = shared.change(|allocator| {
            allocator.allocate(pod, (container.kind, container.container), nodes, &mut report)
        });
        shared.count(report, result.is_err());
        result.map_err(|error| error.rejection())
    }

    /// Allocates CPUs to a pod as a whole, and divides them among its containers. A pod that has CPUs keeps them.
    ///
    /// # Errors
    /// When the CPUs are not free, or when containers would be left without.
    pub fn allocate_whole_pod(&self, pod: &Pod, nodes: Option<NumaMask>) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut report = AllocationReport::default();
        let result = shared.change(|allocator| allocator.allocate_whole_pod(pod, nodes, &mut report));
        shared.metrics.cpus.allocated(report, false, result.is_err());
        if shared.counts_sources() {
            shared.metrics.resource_managers.pod_allocated(
                "cpu",
                (report.from_pod, report.shared_in_pod),
                result.is_err(),
            );
        }
        result.map_err(|error| error.rejection())
    }

    /// The containers of a pod that have exclusive CPUs.
    #[must_use]
    pub fn owners(&self, uid: &PodUid) -> BTreeSet<String> {
        self.read(|assignments| {
            let own = assignments.exclusive.get(uid);
            own.map(|own| own.keys().cloned().collect()).unwrap_or_default()
        })
    }

    /// Releases the CPUs of all containers for which `keep` returns false.
    pub fn retain(&self, keep: impl Fn(&PodUid, &str) -> bool) {
        if let Some(shared) = &self.shared {
            shared.change(|allocator| allocator.retain(keep));
        }
    }

    /// The CPUs of a container: its own, or the shared pool. Empty without the static policy.
    #[must_use]
    pub fn effective(&self, uid: &PodUid, container: &str) -> CpuSet {
        self.read(|assignments| assignments.effective(uid, container).clone())
    }

    /// The exclusive CPUs of a container.
    #[must_use]
    pub fn exclusive(&self, uid: &PodUid, container: &str) -> CpuSet {
        self.read(|assignments| assignments.of(uid, container).cloned().unwrap_or_default())
    }

    /// CPUs that containers can own.
    #[must_use]
    pub fn allocatable(&self) -> CpuSet {
        let shared = self.shared.as_ref();
        shared.map(|shared| shared.allocator.lock().policy().allocatable()).unwrap_or_default()
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
            state_file::encode("static", allocator.management(), allocator.assignments())
        };
        shared.file.flush(encode).await
    }

    fn hints(&self, hints: impl FnOnce(&CpuAllocator) -> ProviderHints) -> ProviderHints {
        self.shared.as_ref().map(|shared| hints(&shared.allocator.lock())).unwrap_or_default()
    }

    fn read<T: Default>(&self, read: impl FnOnce(&CpuAssignments) -> T) -> T {
        self.shared.as_ref().map(|shared| read(shared.allocator.lock().assignments())).unwrap_or_default()
    }
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut CpuAllocator) -> T) -> T {
        let mut allocator = self.allocator.lock();
        let before = allocator.assignments().clone();
        let result = change(&mut allocator);
        if *allocator.assignments() != before {
            self.metrics.cpus.show(&allocator);
            self.file.mark_changed();
        }
        result
    }

    fn count(&self, report: AllocationReport, is_failed: bool) {
        let is_aligned = self.allocator.lock().policy().options().full_cores_only;
        self.metrics.cpus.allocated(report, is_aligned, is_failed);
        if self.counts_sources() {
            self.metrics.resource_managers.node_allocated("cpu", report.from_node, is_failed);
        }
    }

    /// Upstream has the metrics of both managers only with the gate.
    fn counts_sources(&self) -> bool {
        self.allocator.lock().management().is_managed()
    }
}

#[cfg(test)]
mod tests;
