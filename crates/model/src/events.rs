use std::collections::BTreeMap;

use crate::{ContainerId, Pod, PodFullName, PodUid, Timestamp};

/// A change between two observations of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodEventKind {
    /// A container or sandbox started.
    Started(ContainerId),
    /// A container or sandbox ended.
    Died(ContainerId),
    /// A container or sandbox was removed.
    Removed(ContainerId),
    /// The state became unknown; does not wake the worker.
    Changed(ContainerId),
}

/// A wake-up for the sync loop. It carries no state: the worker reads the observation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodEvent {
    pub uid: PodUid,
    pub kind: PodEventKind,
}

/// Severity of an event shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// A pod, or one of its containers by field path.
    Pod {
        uid: PodUid,
        full_name: PodFullName,
        /// `spec.containers{name}` or empty.
        field_path: String,
    },
    Node(String),
    /// A PersistentVolume.
    Volume {
        name: String,
        uid: String,
    },
    Claim {
        namespace: String,
        name: String,
        uid: String,
    },
}

impl EventSubject {
    pub fn pod(pod: &Pod, field_path: String) -> Self {
        Self::Pod { uid: pod.uid.clone(), full_name: pod.full_name.clone(), field_path }
    }
}

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    pub subject: EventSubject,
    pub kind: EventType,
    pub reason: String,
    pub message: String,
    pub at: Timestamp,
    pub annotations: BTreeMap<String, String>,
}

impl RecordedEvent {
    /// An event without annotations.
    #[must_use]
    pub fn new(
        subject: EventSubject,
        kind: EventType,
        reason: &str,
        message: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        let annotations = BTreeMap::new();
        Self { subject, kind, reason: reason.to_owned(), message: message.into(), at, annotations }
    }
}
