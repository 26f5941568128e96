use std::collections::BTreeMap;

use crate::{ContainerId, Pod, PodFullName, PodUid, Timestamp};

/// What the runtime did to a pod, found by comparing two observations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodEventKind {
    /// A container or sandbox runs that did not before.
    Started(ContainerId),
    /// A container or sandbox ended.
    Died(ContainerId),
    /// A container or sandbox is gone.
    Removed(ContainerId),
    /// Its state became unclear; refreshes the observation, wakes nobody.
    Changed(ContainerId),
}

/// A wake-up for the sync loop. It carries no state: the worker reads the observation itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodEvent {
    /// The pod.
    pub uid: PodUid,
    /// What was seen.
    pub kind: PodEventKind,
}

/// Severity of an event shown to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Something is wrong.
    Warning,
}

impl EventType {
    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// A pod, or a part of it named by a field path.
    Pod {
        /// UID.
        uid: PodUid,
        /// Namespace and name.
        full_name: PodFullName,
        /// `spec.containers{name}` or empty.
        field_path: String,
    },
    /// The node.
    Node(String),
    /// A PersistentVolume.
    Volume {
        /// Name.
        name: String,
        /// UID.
        uid: String,
    },
    /// A claim for a volume.
    Claim {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// UID.
        uid: String,
    },
}

impl EventSubject {
    /// A pod, or the part of it at a field path.
    #[must_use]
    pub fn pod(pod: &Pod, field_path: String) -> Self {
        Self::Pod { uid: pod.uid.clone(), full_name: pod.full_name.clone(), field_path }
    }
}

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// What it is about.
    pub subject: EventSubject,
    /// Severity.
    pub kind: EventType,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// What programs may read from it.
    pub annotations: BTreeMap<String, String>,
}
