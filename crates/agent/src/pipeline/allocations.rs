//! Allocated and actuated resources of pods.
//!
//! The sync loop allocates resources, the pod runtime records which are actuated, the status stage reads both. Both are
//! checkpointed in upstream's format, for every pod: upstream may restart a container without a record. A caller that acts on
//! an allocation first waits until it is on disk ([`Allocations::flush_allocated`]); concurrent writes for many pods are
//! coalesced. Changes that nothing waits for (removed pods, pods without resources) are written soon afterwards
//! ([`Allocations::run`]).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use decide::pod_resources::allocation::checkpoint::{self, CheckpointError, ResourcesByPod};
use decide::pod_resources::allocation::{allocated_pod, has_resizable_resources, resources_of};
use k8s_openapi::api::core::v1::ResourceRequirements;
use model::{Pod, PodAllocation, PodResources, PodUid};
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use timing::{Backoff, BackoffPolicy, Debounce, KeySender, random, sleep_until};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::pipeline::exclusive_cpus::ExclusiveCpus;
use crate::pipeline::managed_resources::ManagedResources;

/// Checkpoint of the allocated resources.
pub const ALLOCATED: &str = "allocated_pods_state";
/// Checkpoint of the actuated resources.
pub const ACTUATED: &str = "actuated_pods_state";

/// Changes that nothing waits for are written when none followed for this long.
const SAVE_DELAY: Duration = Duration::from_secs(1);
const MAX_SAVE_DELAY: Duration = Duration::from_secs(10);
const SAVE_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60)).with_jitter(0.2);

#[derive(Debug, thiserror::Error)]
#[error(
    "could not restore state from checkpoint: {problem}, please drain this node and delete pod resource information checkpoint file {file:?} before restarting Kubelet"
)]
pub struct CorruptCheckpointError {
    file: &'static str,
    #[source]
    problem: CheckpointError,
}

/// Clones share their state.
#[derive(Clone)]
pub struct Allocations {
    shared: Arc<Shared>,
    managed: ManagedResources,
}

struct Shared {
    state: Mutex<State>,
    files: Arc<dyn Checkpoints>,
    /// Notified after every change that must be written.
    changed: Notify,
    allocated: SaveProgress,
    actuated: SaveProgress,
}

/// Write state of one checkpoint.
#[derive(Default)]
struct SaveProgress {
    version: AtomicU64,
    /// Held during a write.
    write_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<PodUid, Arc<PodAllocation>>,
    actuated: ResourcesByPod,
    /// Incremented by each change that must be written.
    allocated_version: u64,
    actuated_version: u64,
    /// The last version that changed each pod in a way that its syncs wait for.
    allocated_in: BTreeMap<PodUid, u64>,
    actuated_in: BTreeMap<PodUid, u64>,
    listeners: Vec<KeySender<PodUid>>,
}

impl Allocations {
    /// Restores the state from the content of the two checkpoints, if they exist.
    ///
    /// # Errors
    /// When a checkpoint is corrupt. The allocations are then unknown, so no pod may be started.
    pub fn restore(
        files: Arc<dyn Checkpoints>,
        allocated: Option<&[u8]>,
        actuated: Option<&[u8]>,
    ) -> Result<Self, CorruptCheckpointError> {
        let read = |file, content: Option<&[u8]>| match content.map(checkpoint::decode) {
            Some(Ok(all)) => Ok(all),
            Some(Err(problem)) => Err(CorruptCheckpointError { file, problem }),
            None => Ok(ResourcesByPod::new()),
        };
        let restored = |resources| Arc::new(PodAllocation { resources, ..PodAllocation::default() });
        let state = State {
            pods: read(ALLOCATED, allocated)?
                .into_iter()
                .map(|(uid, resources)| (uid, restored(resources)))
                .collect(),
            actuated: read(ACTUATED, actuated)?,
            ..State::default()
        };
        let shared = Shared {
            state: Mutex::new(state),
            files,
            changed: Notify::new(),
            allocated: SaveProgress::default(),
            actuated: SaveProgress::default(),
        };
        Ok(Self { shared: Arc::new(shared), managed: ManagedResources::default() })
    }

    /// Adds the state of the resource managers.
    #[must_use]
    pub fn with_managed(self, managed: ManagedResources) -> Self {
        Self { managed, ..self }
    }

    /// CPUs, memory and devices that belong to particular containers.
    #[must_use]
    pub fn managed(&self) -> &ManagedResources {
        &self.managed
    }

    /// Exclusive CPUs of containers.
    #[must_use]
    pub fn cpus(&self) -> &ExclusiveCpus {
        self.managed.cpus()
    }

    /// Sends the UID of each pod whose allocation, resize conditions or device health change to `listener`.
    pub fn subscribe(&self, listener: KeySender<PodUid>) {
        self.managed.devices().subscribe(listener.clone());
        self.with_state(|state| state.listeners.push(listener));
    }

    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        self.with_state(|state| state.pods.get(uid).cloned())
    }

    /// The pod with its allocated resources instead of those in its spec.
    #[must_use]
    pub fn allocated(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let allocation = self.get(&pod.uid);
        let changed = allocation.and_then(|allocation| allocated_pod(pod, &allocation.resources));
        changed.map_or_else(|| Arc::clone(pod), Arc::new)
    }

    /// Whether the spec requests other resources than those allocated.
    #[must_use]
    pub fn differs_from_spec(&self, pod: &Pod) -> bool {
        self.get(&pod.uid).is_some_and(|allocation| allocated_pod(pod, &allocation.resources).is_some())
    }

    /// Allocates the resources in the pod's spec.
    pub fn allocate(&self, pod: &Pod) {
        let resources = resources_of(pod);
        self.with_state(|state| {
            let before = state.pods.get(&pod.uid);
            // Nothing waits for an empty allocation: it is the default without a record.
            let (is_change, must_wait) = match before {
                Some(before) => (before.resources != resources, before.resources != resources),
                None => (true, has_resizable_resources(&resources)),
            };
            let allocation = before.map(|before| (**before).clone()).unwrap_or_default();
            state.allocated_version += u64::from(is_change);
            if must_wait {
                state.allocated_in.insert(pod.uid.clone(), state.allocated_version);
            }
            state.pods.insert(pod.uid.clone(), Arc::new(PodAllocation { resources, ..allocation }));
            state.notify(&pod.uid);
        });
    }

    /// Changes the resize conditions of a pod.
    pub fn change<T>(&self, uid: &PodUid, change: impl FnOnce(&mut PodAllocation) -> T) -> T {
        self.with_state(|state| {
            let before = state.pods.get(uid).cloned().unwrap_or_default();
            let mut allocation = (*before).clone();
            let result = change(&mut allocation);
            if allocation != *before {
                state.pods.insert(uid.clone(), Arc::new(allocation));
                state.notify(uid);
            }
            result
        })
    }

    /// The actuated resources of a pod; `None` without a record.
    #[must_use]
    pub fn actuated(&self, uid: &PodUid) -> Option<PodResources> {
        self.with_state(|state| state.actuated.get(uid).cloned())
    }

    /// Records the resources that a container has, or is about to be created with.
    pub fn set_actuated_container(&self, uid: &PodUid, name: &str, resources: ResourceRequirements) {
        self.with_state(|state| {
            let all = state.actuated.entry(uid.clone()).or_default();
            let before = all.containers.get(name);
            if before.is_none_or(|before| **before != resources) {
                let is_empty = resources.limits.is_none() && resources.requests.is_none() && before.is_none();
                let allocated =
                    state.pods.get(uid).and_then(|allocation| allocation.resources.containers.get(name));
                let resources = match allocated {
                    Some(allocated) if **allocated == resources => Arc::clone(allocated),
                    Some(_) | None => Arc::new(resources),
                };
                let is_resize = before.is_some();
                all.containers.insert(name, resources);
                state.actuated_version += 1;
                if !is_empty {
                    state.actuated_in.insert(uid.clone(), state.actuated_version);
                }
                if is_resize {
                    state.notify(uid);
                }
            }
        });
    }

    /// Records the actuated pod-level resources.
    pub fn set_actuated_pod(&self, uid: &PodUid, resources: Option<&ResourceRequirements>) {
        self.with_state(|state| {
            let all = state.actuated.entry(uid.clone()).or_default();
            if all.pod.as_ref() != resources {
                all.pod = resources.cloned();
                state.actuated_version += 1;
                state.actuated_in.insert(uid.clone(), state.actuated_version);
            }
        });
    }

    /// Waits until the pod's allocation is on disk. Changes of other pods are not waited for.
    ///
    /// # Errors
    /// When the checkpoint cannot be written.
    pub async fn flush_allocated(&self, uid: &PodUid) -> Result<(), FileError> {
        match self.with_state(|state| state.allocated_in.get(uid).copied()) {
            Some(version) => self.save_allocated(version).await,
            None => Ok(()),
        }
    }

    /// Waits until the pod's actuated resources are on disk.
    ///
    /// # Errors
    /// When the checkpoint cannot be written.
    pub async fn flush_actuated(&self, uid: &PodUid) -> Result<(), FileError> {
        match self.with_state(|state| state.actuated_in.get(uid).copied()) {
            Some(version) => self.save_actuated(version).await,
            None => Ok(()),
        }
    }

    /// Removes a pod.
    pub fn remove(&self, uid: &PodUid) {
        self.with_state(|state| {
            state.allocated_version += u64::from(state.pods.remove(uid).is_some());
            state.actuated_version += u64::from(state.actuated.remove(uid).is_some());
            state.allocated_in.remove(uid);
            state.actuated_in.remove(uid);
        });
    }

    /// Removes all pods for which `keep` returns false.
    pub fn retain(&self, keep: impl Fn(&PodUid) -> bool) {
        self.with_state(|state| {
            let counts = (state.pods.len(), state.actuated.len());
            state.pods.retain(|uid, _| keep(uid));
            state.actuated.retain(|uid, _| keep(uid));
            state.allocated_in.retain(|uid, _| keep(uid));
            state.actuated_in.retain(|uid, _| keep(uid));
            state.allocated_version += u64::from(state.pods.len() != counts.0);
            state.actuated_version += u64::from(state.actuated.len() != counts.1);
        });
    }

    /// Writes the changes that nothing waits for, until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut debounce = Debounce::new(SAVE_DELAY, MAX_SAVE_DELAY);
        let mut backoff = Backoff::new(SAVE_BACKOFF);
        let mut retry_at = None;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = debounce.ended() => {}
                () = sleep_until(retry_at) => {}
                () = self.shared.changed.notified() => {
                    debounce.event();
                    continue;
                }
            }
            retry_at = match self.save_changes().await {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(error) => {
                    tracing::warn!(%error, source = %error.source, "failed to write the checkpoint of allocated resources, retrying");
                    Some(Instant::now() + backoff.next(random()))
                }
            };
        }
        if let Err(error) = self.save_changes().await {
            tracing::warn!(%error, source = %error.source, "failed to write the checkpoint of allocated resources at exit");
        }
    }

    async fn save_changes(&self) -> Result<(), FileError> {
        let (allocated, actuated) =
            self.with_state(|state| (state.allocated_version, state.actuated_version));
        self.save_allocated(allocated).await?;
        self.save_actuated(actuated).await
    }

    async fn save_allocated(&self, needed: u64) -> Result<(), FileError> {
        let encode = |state: &State| {
            let all = state.pods.iter().map(|(uid, allocation)| (uid, &allocation.resources));
            (state.allocated_version, checkpoint::encode(all))
        };
        self.save(ALLOCATED, &self.shared.allocated, needed, encode).await
    }

    async fn save_actuated(&self, needed: u64) -> Result<(), FileError> {
        let encode = |state: &State| (state.actuated_version, checkpoint::encode(state.actuated.iter()));
        self.save(ACTUATED, &self.shared.actuated, needed, encode).await
    }

    /// Callers that arrive during a write share the next one.
    async fn save(
        &self,
        file: &'static str,
        progress: &SaveProgress,
        needed: u64,
        encode: impl Fn(&State) -> (u64, Vec<u8>),
    ) -> Result<(), FileError> {
        let is_written = || progress.version.load(Ordering::Acquire) >= needed;
        if is_written() {
            return Ok(());
        }
        let _guard = progress.write_lock.lock().await;
        if is_written() {
            return Ok(());
        }
        let (version, content) = self.with_state(|state| encode(state));
        self.shared.files.save(file, content).await?;
        progress.version.store(version, Ordering::Release);
        Ok(())
    }

    fn with_state<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.state.lock();
        let versions = |state: &State| (state.allocated_version, state.actuated_version);
        let before = versions(&state);
        let result = act(&mut state);
        if versions(&state) != before {
            self.shared.changed.notify_one();
        }
        result
    }
}

impl State {
    fn notify(&self, uid: &PodUid) {
        for listener in &self.listeners {
            // Fails only when the listening stage has ended.
            listener.send(uid.clone());
        }
    }
}

#[cfg(test)]
mod tests;
