use crate::{ContainerProblems, PodFullName, PodUid, Rejection};

/// How far a pod's worker has come. It never goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerPhase {
    /// The pod is kept running.
    Syncing,
    /// Its containers are being stopped.
    Terminating,
    /// Nothing runs any more; what it left behind is being cleaned up.
    Terminated,
    /// Nothing is left to do.
    Finished,
}

impl WorkerPhase {
    /// The word shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
            Self::Finished => "finished",
        }
    }
}

/// How a worker's pod became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerPodKind {
    ApiPod,
    StaticPod,
    /// Only the runtime reports the pod, so its source is unknown.
    Orphan,
}

/// How much a worker has done for its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerProgress {
    /// No sync has started. A static pod waits here for the end of another pod of the same name.
    NotStarted,
    Started,
    /// At least one sync has ended. Until then the problems of the pod's containers are unknown.
    SyncedOnce,
}

/// Published view of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    pub uid: PodUid,
    pub full_name: PodFullName,
    pub phase: WorkerPhase,
    pub pod_kind: WorkerPodKind,
    pub progress: WorkerProgress,
    /// Whether a source desires the same UID again; only after termination began.
    pub restart_requested: bool,
    /// Why containers do not run.
    pub problems: ContainerProblems,
    /// Why the last pass failed.
    pub last_error: Option<String>,
    /// Why the agent ended it.
    pub rejection: Option<Rejection>,
}
