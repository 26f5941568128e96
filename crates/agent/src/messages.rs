//! What the stages say to each other.

use std::sync::Arc;
use std::time::Duration;

use decide::eviction::EvictionNote;
use decide::housekeeping::PodCgroup;
pub use model::ProbeKind;
use model::{KillOptions, PodUid, WorkerCommand};
use tokio::sync::oneshot;

/// A message to the pod workers.
#[derive(Debug)]
pub enum WorkerMessage {
    /// An order for one pod.
    Command(WorkerCommand),
    /// Another pass for a pod whose time has come.
    Retry(PodUid),
    /// The worker of a pod that is over can go.
    Forget(PodUid),
}

/// A worker asks to be called again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requeue {
    /// Its pod.
    pub uid: PodUid,
    /// After this time.
    pub delay: Duration,
}

/// The agent itself ends a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillRequest {
    /// The pod.
    pub uid: PodUid,
    /// How, and why.
    pub options: KillOptions,
    /// What is told of a pod that has to go for the good of the node.
    pub eviction: Option<EvictionNote>,
}

/// A probe's verdict changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// The pod.
    pub uid: PodUid,
    /// Which probe.
    pub kind: ProbeKind,
    /// Whether it succeeded.
    pub success: bool,
}

/// A collector is asked to give up all that nobody needs, now.
#[derive(Debug)]
pub struct ReclaimOrder {
    /// Told when that is done, as far as it could be.
    pub done: oneshot::Sender<()>,
}

/// What the sweeper is asked to remove.
#[derive(Clone, Debug, Default)]
pub struct SweepOrder {
    /// Dead pods in the runtime.
    pub runtime_pods: Vec<Arc<model::ObservedPod>>,
    /// Pod folders.
    pub pod_folders: Vec<PodUid>,
    /// Log folders.
    pub log_folders: Vec<model::LogFolder>,
    /// Cgroups whose pods are gone.
    pub pod_cgroups: Vec<PodCgroup>,
    /// Cgroups that wait for their pods' volumes to go.
    pub leftover_cgroups: Vec<PodCgroup>,
}

impl SweepOrder {
    /// Whether there is nothing to remove.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runtime_pods.is_empty()
            && self.pod_folders.is_empty()
            && self.log_folders.is_empty()
            && self.pod_cgroups.is_empty()
            && self.leftover_cgroups.is_empty()
    }
}
