use std::sync::Arc;

use crate::{ObservedPod, Pod, PodFullName, PodUid, Rejection, Timestamp};

/// Why a worker gets a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateKind {
    /// The pod is new.
    Create,
    /// The pod changed.
    Update,
    /// The observation changed, or the next sync is due.
    Sync,
    /// The pod must stop.
    Kill,
}

impl UpdateKind {
    /// The label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Sync => "sync",
            Self::Kill => "kill",
        }
    }
}

#[derive(Clone, Debug)]
pub enum WorkerTarget {
    /// A pod of a source.
    Desired(Arc<Pod>),
    /// A pod that exists only in the runtime; it can only be killed.
    Orphan(Arc<ObservedPod>),
}

impl WorkerTarget {
    /// The pod's UID.
    pub fn uid(&self) -> &PodUid {
        match self {
            Self::Desired(pod) => &pod.uid,
            Self::Orphan(observed) => &observed.uid,
        }
    }

    /// The pod's namespace and name.
    pub fn full_name(&self) -> &PodFullName {
        match self {
            Self::Desired(pod) => &pod.full_name,
            Self::Orphan(observed) => &observed.full_name,
        }
    }
}

/// How a pod is killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillOptions {
    /// Grace period in seconds instead of the pod's.
    pub grace_override: Option<u64>,
    /// Set when the agent ends the pod for good (rejection, eviction).
    pub rejection: Option<Rejection>,
}

/// A command to the worker of one pod.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    pub kind: UpdateKind,
    pub target: WorkerTarget,
    /// How to kill, with [`UpdateKind::Kill`].
    pub kill: Option<KillOptions>,
    /// When the cause was noticed.
    pub seen_at: Timestamp,
}
