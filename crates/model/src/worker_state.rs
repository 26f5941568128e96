use crate::{ContainerProblems, PodFullName, PodUid};

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
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Terminating => "terminating",
            Self::Terminated => "terminated",
            Self::Finished => "finished",
        }
    }
}

/// Why the agent ended a pod by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// One word such as `OutOfpods`.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Rejection {
    /// What the message of a refusal begins with.
    const REFUSED: &str = "Pod was rejected: ";

    /// The rejection of a pod that is not let in at all.
    #[must_use]
    pub fn at_admission(self) -> Self {
        Self { message: format!("{}{}", Self::REFUSED, self.message), ..self }
    }

    /// Whether the pod was never let in, rather than ended after it had run.
    #[must_use]
    pub fn is_at_admission(&self) -> bool {
        self.message.starts_with(Self::REFUSED)
    }
}

/// What others may know of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// The pod.
    pub uid: PodUid,
    /// Namespace and name.
    pub full_name: PodFullName,
    /// How far it is.
    pub phase: WorkerPhase,
    /// Whether the pod has been worked on at least once.
    pub started: bool,
    /// Whether a pass over the pod has come to its end: until then nothing is known of its problems.
    pub passed: bool,
    /// Whether the same UID is wanted again after termination.
    pub restart_requested: bool,
    /// Whether the pod is known from the runtime alone.
    pub orphan: bool,
    /// Whether it is a static pod; one that is known from the runtime alone is not known to be.
    pub is_static: bool,
    /// Why containers do not run.
    pub problems: ContainerProblems,
    /// Why the last pass failed.
    pub last_error: Option<String>,
    /// Why the agent ended it.
    pub rejection: Option<Rejection>,
}
