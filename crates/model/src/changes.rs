use std::sync::Arc;

use crate::{Pod, PodSource};

/// Why a source sends a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// The source's whole set as it is now.
    Set,
    /// The set remembered from before a restart; the source itself has not spoken yet.
    Restore,
}

/// The whole set of pods of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Who speaks.
    pub source: PodSource,
    /// Fresh or remembered.
    pub kind: SnapshotKind,
    /// All its pods.
    pub pods: Vec<Arc<Pod>>,
}

/// What happened to the pods of a [`PodUpdate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The source's current set, whole.
    Set,
    /// New pods.
    Add,
    /// Pods whose graceful deletion began.
    Delete,
    /// Pods that are gone from the source.
    Remove,
    /// Pods whose spec or metadata changed.
    Update,
    /// Pods of which only the status differs.
    Reconcile,
    /// Pods remembered from before a restart.
    Restore,
}

impl Operation {
    /// The operation's name in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Add => "ADD",
            Self::Delete => "DELETE",
            Self::Remove => "REMOVE",
            Self::Update => "UPDATE",
            Self::Reconcile => "RECONCILE",
            Self::Restore => "RESTORE",
        }
    }
}

/// One step from the merge to the sync loop.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUpdate {
    /// Whose pods.
    pub source: PodSource,
    /// What happened.
    pub operation: Operation,
    /// To which pods.
    pub pods: Vec<Arc<Pod>>,
}
