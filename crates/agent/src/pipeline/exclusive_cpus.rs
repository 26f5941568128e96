//! Exclusive CPUs of containers: the state of the static CPU policy.
//!
//! The sync loop allocates and releases CPUs, the pod runtime reads the CPUs of a container that it creates, and the CPU
//! reconciler saves the state and updates running containers. A container is created only after its CPUs are on disk
//! ([`ExclusiveCpus::flush`]). Without the policy there is no state, and every call returns at once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use decide::cpus::state_file::{self, StateFileError};
use decide::cpus::{AllocationReport, CpuAllocator, CpuAssignments, StateError, StaticPolicy};
use model::{Pod, PodUid, Rejection};
use parking_lot::Mutex;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use tokio::sync::Notify;
use values::cpu_set::CpuSet;

use crate::metrics::Metrics;

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
    state: Mutex<State>,
    files: Arc<dyn Checkpoints>,
    metrics: Arc<Metrics>,
    written: AtomicU64,
    /// Held during a write.
    write_lock: tokio::sync::Mutex<()>,
    changed: Notify,
}

struct State {
    allocator: CpuAllocator,
    /// Incremented by each change that must be written.
    version: u64,
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
        metrics: Arc<Metrics>,
    ) -> Result<Self, RestoreError> {
        let name = if policy.is_some() { "static" } else { "none" };
        let stored = match files.load(CPU_STATE).await.map_err(RestoreError::Access)? {
            Some(content) => {
                let decoded = state_file::decode(name, &content);
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
            let content = state_file::encode(name, &assignments);
            files.save(CPU_STATE, content).await.map_err(RestoreError::Access)?;
        }
        let Some(policy) = policy else { return Ok(Self::default()) };
        tracing::info!(reserved = %policy.reserved(), shared = %assignments.shared, "static CPU policy is active");
        metrics.cpus.policy_started();
        let allocator = CpuAllocator::new(policy, assignments);
        metrics.cpus.show(&allocator);
        let shared = Shared {
            state: Mutex::new(State { allocator, version: 0 }),
            files,
            metrics,
            written: AtomicU64::new(0),
            write_lock: tokio::sync::Mutex::new(()),
            changed: Notify::new(),
        };
        Ok(Self { shared: Some(Arc::new(shared)) })
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.shared.is_some()
    }

    /// A copy of the state, for admission checks; `None` without the static policy.
    #[must_use]
    pub fn allocator(&self) -> Option<CpuAllocator> {
        self.shared.as_ref().map(|shared| shared.state.lock().allocator.clone())
    }

    /// Allocates the CPUs of an admitted pod.
    ///
    /// # Errors
    /// When the CPUs are not free.
    pub fn allocate(&self, pod: &Pod) -> Result<(), Rejection> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let (report, result) = shared.change(|allocator| allocator.allocate_pod(pod));
        shared.count(report, result.is_err());
        result.map_err(|error| error.rejection())
    }

    /// Counts an allocation that the admission of a pod refused.
    pub fn count_refusal(&self, pod: &Pod) {
        if let (Some(shared), Some(mut allocator)) = (&self.shared, self.allocator()) {
            let (report, result) = allocator.allocate_pod(pod);
            if result.is_err() {
                shared.count(report, true);
            }
        }
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
        shared.map(|shared| shared.state.lock().allocator.policy().allocatable()).unwrap_or_default()
    }

    /// Waits for the next change that is not saved.
    pub async fn changed(&self) {
        match &self.shared {
            Some(shared) => shared.changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until all changes are on disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn flush(&self) -> Result<(), FileError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let needed = shared.state.lock().version;
        let is_written = || shared.written.load(Ordering::Acquire) >= needed;
        if is_written() {
            return Ok(());
        }
        let _guard = shared.write_lock.lock().await;
        if is_written() {
            return Ok(());
        }
        let (version, content) = {
            let state = shared.state.lock();
            (state.version, state_file::encode("static", state.allocator.assignments()))
        };
        shared.files.save(CPU_STATE, content).await?;
        shared.written.store(version, Ordering::Release);
        Ok(())
    }

    fn read<T: Default>(&self, read: impl FnOnce(&CpuAssignments) -> T) -> T {
        self.shared
            .as_ref()
            .map(|shared| read(shared.state.lock().allocator.assignments()))
            .unwrap_or_default()
    }
}

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut CpuAllocator) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.allocator.assignments().clone();
        let result = change(&mut state.allocator);
        if *state.allocator.assignments() != before {
            state.version += 1;
            self.metrics.cpus.show(&state.allocator);
            self.changed.notify_one();
        }
        result
    }

    fn count(&self, report: AllocationReport, is_failed: bool) {
        let is_aligned = self.state.lock().allocator.policy().options().full_cores_only;
        self.metrics.cpus.allocated(report, is_aligned, is_failed);
    }
}

#[cfg(test)]
mod tests;
