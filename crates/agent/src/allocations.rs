//! What the node has granted to pods, and what of it is in force.
//!
//! The sync loop grants, the pod runtime notes what took effect, the status reads both. Each of the two records is a file
//! in upstream's form; whoever acts on a record waits until it is written ([`Allocations::saved`]), and writes of many
//! pods at once become one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use decide::allocation::checkpoint::{self, AllResources, CheckpointProblem};
use decide::allocation::{granted_pod, has_any, resources_of};
use k8s_openapi::api::core::v1::ResourceRequirements;
use model::{Pod, PodAllocation, PodResources, PodUid};
use ports::checkpoints::Checkpoints;
use ports::pod_folders::FileError;
use tokio::sync::mpsc;

/// The file of what was granted.
pub const ALLOCATED: &str = "allocated_pods_state";
/// The file of what is in force.
pub const ACTUATED: &str = "actuated_pods_state";

/// A damaged record.
#[derive(Debug, thiserror::Error)]
#[error(
    "could not restore state from checkpoint: {problem}, please drain this node and delete pod resource information checkpoint file {file:?} before restarting Kubelet"
)]
pub struct DamagedRecord {
    file: &'static str,
    #[source]
    problem: CheckpointProblem,
}

/// The records; copies share them.
#[derive(Clone)]
pub struct Allocations {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    files: Arc<dyn Checkpoints>,
    allocated: Written,
    actuated: Written,
}

/// How far a file is.
#[derive(Default)]
struct Written {
    version: AtomicU64,
    /// Held while it is written.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<PodUid, Arc<PodAllocation>>,
    actuated: AllResources,
    /// Versions of the records; a file that holds an older one is behind.
    allocated_version: u64,
    actuated_version: u64,
    /// The versions in which something of a pod changed; a pod that is not here needs nothing written.
    granted_in: BTreeMap<PodUid, u64>,
    noted_in: BTreeMap<PodUid, u64>,
    listeners: Vec<mpsc::UnboundedSender<PodUid>>,
}

impl Allocations {
    /// Goes on from the content of the two files, if they exist.
    ///
    /// # Errors
    /// When one of them is damaged. What was granted is then unknown, so nothing may be started.
    pub fn restore(
        files: Arc<dyn Checkpoints>,
        allocated: Option<&[u8]>,
        actuated: Option<&[u8]>,
    ) -> Result<Self, DamagedRecord> {
        let read = |file, content: Option<&[u8]>| match content.map(checkpoint::decode) {
            Some(Ok(all)) => Ok(all),
            Some(Err(problem)) => Err(DamagedRecord { file, problem }),
            None => Ok(AllResources::new()),
        };
        let granted = |granted| Arc::new(PodAllocation { granted, ..PodAllocation::default() });
        let state = State {
            pods: read(ALLOCATED, allocated)?.into_iter().map(|(uid, own)| (uid, granted(own))).collect(),
            actuated: read(ACTUATED, actuated)?,
            ..State::default()
        };
        let shared = Shared {
            state: Mutex::new(state),
            files,
            allocated: Written::default(),
            actuated: Written::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Tells the UID of each pod whose grant or conditions change.
    pub fn tell(&self, listener: mpsc::UnboundedSender<PodUid>) {
        self.with(|state| state.listeners.push(listener));
    }

    /// What is known of a pod.
    #[must_use]
    pub fn get(&self, uid: &PodUid) -> Option<Arc<PodAllocation>> {
        self.with(|state| state.pods.get(uid).cloned())
    }

    /// The pod with what was granted to it.
    #[must_use]
    pub fn granted(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let own = self.get(&pod.uid);
        let changed = own.and_then(|own| granted_pod(pod, &own.granted));
        changed.map_or_else(|| Arc::clone(pod), Arc::new)
    }

    /// Whether the spec asks for something else than was granted.
    #[must_use]
    pub fn differs(&self, pod: &Pod) -> bool {
        self.get(&pod.uid).is_some_and(|own| granted_pod(pod, &own.granted).is_some())
    }

    /// Grants a pod what it asks for.
    pub fn grant(&self, pod: &Pod) {
        let granted = resources_of(pod);
        self.with(|state| {
            let before = state.pods.get(&pod.uid);
            // What asks for nothing need not be written: nothing is what an agent without a record assumes.
            let noteworthy = match before {
                Some(before) => before.granted != granted,
                None => has_any(&granted),
            };
            let own = before.map(|before| (**before).clone()).unwrap_or_default();
            if noteworthy {
                state.allocated_version += 1;
                state.granted_in.insert(pod.uid.clone(), state.allocated_version);
            }
            state.pods.insert(pod.uid.clone(), Arc::new(PodAllocation { granted, ..own }));
            state.tell(&pod.uid);
        });
    }

    /// Changes the conditions of a pod.
    pub fn change<T>(&self, uid: &PodUid, change: impl FnOnce(&mut PodAllocation) -> T) -> T {
        self.with(|state| {
            let before = state.pods.get(uid).cloned().unwrap_or_default();
            let mut own = (*before).clone();
            let result = change(&mut own);
            if own != *before {
                state.pods.insert(uid.clone(), Arc::new(own));
                state.tell(uid);
            }
            result
        })
    }

    /// What is in force of a pod; `None` without a note of it.
    #[must_use]
    pub fn actuated(&self, uid: &PodUid) -> Option<PodResources> {
        self.with(|state| state.actuated.get(uid).cloned())
    }

    /// Notes what is in force of a container, or is about to be when it is made.
    pub fn note_container(&self, uid: &PodUid, name: &str, own: ResourceRequirements) {
        self.with(|state| {
            let all = state.actuated.entry(uid.clone()).or_default();
            let before = all.containers.get(name);
            if before.is_none_or(|before| **before != own) {
                let nothing = own.limits.is_none() && own.requests.is_none() && before.is_none();
                let granted = state.pods.get(uid).and_then(|granted| granted.granted.containers.get(name));
                let own = match granted {
                    Some(granted) if **granted == own => Arc::clone(granted),
                    Some(_) | None => Arc::new(own),
                };
                all.containers.insert(name, own);
                if !nothing {
                    state.note(uid);
                }
            }
        });
    }

    /// Notes what is in force of the pod as a whole.
    pub fn note_pod(&self, uid: &PodUid, own: Option<&ResourceRequirements>) {
        self.with(|state| {
            let all = state.actuated.entry(uid.clone()).or_default();
            if all.pod.as_ref() != own {
                all.pod = own.cloned();
                state.note(uid);
            }
        });
    }

    /// Returns when everything granted to a pod so far is written. Other pods' grants hold up nobody.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn saved(&self, uid: &PodUid) -> Result<(), FileError> {
        let encode = |state: &State| {
            let all = state.pods.iter().map(|(uid, own)| (uid, &own.granted));
            (state.allocated_version, checkpoint::encode(all))
        };
        let needed = self.with(|state| state.granted_in.get(uid).copied());
        self.save(ALLOCATED, &self.shared.allocated, needed, encode).await
    }

    /// Returns when everything noted of a pod so far is written.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn noted(&self, uid: &PodUid) -> Result<(), FileError> {
        let encode = |state: &State| (state.actuated_version, checkpoint::encode(state.actuated.iter()));
        let needed = self.with(|state| state.noted_in.get(uid).copied());
        self.save(ACTUATED, &self.shared.actuated, needed, encode).await
    }

    /// Forgets a pod. The files follow with the next change: a pod too many does no harm there.
    pub fn forget(&self, uid: &PodUid) {
        self.with(|state| {
            state.pods.remove(uid);
            state.actuated.remove(uid);
            state.granted_in.remove(uid);
            state.noted_in.remove(uid);
        });
    }

    /// Forgets all pods that are not wanted.
    pub fn retain(&self, wanted: impl Fn(&PodUid) -> bool) {
        self.with(|state| {
            state.pods.retain(|uid, _| wanted(uid));
            state.actuated.retain(|uid, _| wanted(uid));
            state.granted_in.retain(|uid, _| wanted(uid));
            state.noted_in.retain(|uid, _| wanted(uid));
        });
    }

    /// Who comes while a write is under way waits for the next one, which is for all of them.
    async fn save(
        &self,
        file: &'static str,
        written: &Written,
        needed: Option<u64>,
        encode: impl Fn(&State) -> (u64, Vec<u8>),
    ) -> Result<(), FileError> {
        let is_written = || needed.is_none_or(|needed| written.version.load(Ordering::Acquire) >= needed);
        if is_written() {
            return Ok(());
        }
        let _turn = written.turn.lock().await;
        if is_written() {
            return Ok(());
        }
        let (version, content) = self.with(|state| encode(state));
        self.shared.files.save(file, content).await?;
        written.version.store(version, Ordering::Release);
        Ok(())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Something of a pod is in force that is not written yet.
    fn note(&mut self, uid: &PodUid) {
        self.actuated_version += 1;
        self.noted_in.insert(uid.clone(), self.actuated_version);
    }

    fn tell(&self, uid: &PodUid) {
        for listener in &self.listeners {
            // A listener that is gone needs no news.
            let _ = listener.send(uid.clone());
        }
    }
}

#[cfg(test)]
mod tests;
