use std::sync::Arc;

use crate::{Pod, PodSource};

/// Why a source sends a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// The current pods of the source.
    Set,
    /// The checkpointed pods of an earlier run; the source has not delivered yet.
    Restore,
}

/// The complete set of pods of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub source: PodSource,
    pub kind: SnapshotKind,
    pub pods: Vec<Arc<Pod>>,
}

/// The change of the pods of a [`PodUpdate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// New pods.
    Add,
    /// Pods whose graceful deletion began.
    Delete,
    /// Pods that disappeared from the source.
    Remove,
    /// Pods whose spec or metadata changed.
    Update,
    /// Pods with only a different status.
    Reconcile,
    /// Checkpointed pods of an earlier run.
    Restore,
}

impl Operation {
    /// The name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Delete => "DELETE",
            Self::Remove => "REMOVE",
            Self::Update => "UPDATE",
            Self::Reconcile => "RECONCILE",
            Self::Restore => "RESTORE",
        }
    }
}

/// A message from the merge to the sync loop.
#[derive(Clone, Debug, PartialEq)]
pub struct PodUpdate {
    pub source: PodSource,
    pub operation: Operation,
    pub pods: Vec<Arc<Pod>>,
}
