//! Messages between stages.

use std::sync::Arc;

use decide::eviction::EvictionNote;
use decide::pipeline::housekeeping::PodCgroup;
pub use model::ProbeKind;
use model::{KillOptions, PodUid, WorkerCommand};
use tokio::sync::oneshot;

#[derive(Debug)]
pub enum WorkerMessage {
    Command(WorkerCommand),
    /// A requeue is due: sync the pod again.
    Retry(PodUid),
    /// Remove the worker of a finished pod.
    Remove(PodUid),
    /// Reply when all earlier messages show in the published views.
    Flush(oneshot::Sender<()>),
}

/// The agent ends a pod for a reason of the node: eviction or shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillRequest {
    pub uid: PodUid,
    pub options: KillOptions,
    /// The event to record, if the pod is evicted.
    pub eviction: Option<EvictionNote>,
}

/// A probe's result changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResultChange {
    pub uid: PodUid,
    pub kind: ProbeKind,
    pub success: bool,
}

/// Requests a garbage collector to remove everything unused now.
#[derive(Debug)]
pub struct ReclaimOrder {
    /// Signalled when the collector has finished, even if some removals failed.
    pub done: oneshot::Sender<()>,
}

/// Orphans that the sweeper removes.
#[derive(Clone, Debug, Default)]
pub struct SweepOrder {
    /// Dead pods in the runtime.
    pub runtime_pods: Vec<Arc<model::ObservedPod>>,
    pub pod_folders: Vec<PodUid>,
    pub log_folders: Vec<model::LogFolder>,
    /// Cgroups of pods that no longer exist.
    pub pod_cgroups: Vec<PodCgroup>,
    /// Cgroups of pods whose volumes are not removed yet; the sweeper only reduces their CPU.
    pub reduced_cgroups: Vec<PodCgroup>,
}

impl SweepOrder {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runtime_pods.is_empty()
            && self.pod_folders.is_empty()
            && self.log_folders.is_empty()
            && self.pod_cgroups.is_empty()
            && self.reduced_cgroups.is_empty()
    }
}
