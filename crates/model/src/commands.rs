use std::sync::Arc;

use crate::{ObservedPod, Pod, PodFullName, PodUid, Rejection, Timestamp};

/// Why a worker is told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateKind {
    /// The pod is new to this agent.
    Create,
    /// The pod changed.
    Update,
    /// The runtime changed, or the pod is due.
    Sync,
    /// The pod must stop.
    Kill,
}

impl UpdateKind {
    /// The word used in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
        }
    }
}

/// What a worker works on.
#[derive(Clone, Debug)]
pub enum WorkerTarget {
    /// A pod that a source wants or wanted.
    Desired(Arc<Pod>),
    /// A pod that only the runtime knows; it can only be killed.
    Orphan(Arc<ObservedPod>),
}

impl WorkerTarget {
    /// The pod's UID.
    #[must_use]
    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Desired(pod) => &pod.uid,
            Self::Orphan(observed) => &observed.uid,
        }
    }

    /// The pod's namespace and name.
    #[must_use]
    pub fn full_name(&self) -> &PodFullName {
        match self {
            Self::Desired(pod) => &pod.full_name,
            Self::Orphan(observed) => &observed.full_name,
        }
    }
}

/// How a pod is to be killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillOptions {
    /// Grace in seconds instead of the pod's own.
    pub grace_override: Option<u64>,
    /// Set when the agent itself ends the pod for good (rejection, eviction).
    pub rejection: Option<Rejection>,
}

/// An order to the worker of one pod.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// Why.
    pub kind: UpdateKind,
    /// Which pod.
    pub target: WorkerTarget,
    /// How to kill, with [`UpdateKind::Kill`].
    pub kill: Option<KillOptions>,
    /// When the cause was seen.
    pub seen_at: Timestamp,
}
