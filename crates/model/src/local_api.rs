//! The documents that the agent serves on its local socket and the commands read.
//!
//! People write scripts against `-o json` and `-o yaml`, so the names of the fields are an interface.

use std::path::PathBuf;

use k8s_openapi::List;
use k8s_openapi::api::core::v1::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{PodSource, StartStep, Timestamp};

pub mod paths {
    pub const PODS: &str = "/pods";
    pub const EVENTS: &str = "/podward/events";
    pub const SOURCES: &str = "/podward/sources";
    pub const MANIFESTS: &str = "/podward/manifests";
    pub const NODE: &str = "/podward/node";
    pub const VERSION: &str = "/podward/version";
    /// `/{namespace}/{pod}` follows.
    pub const EXPLAIN: &str = "/podward/explain";
    /// `/{namespace}/{pod}` follows for the timeline of one pod.
    pub const TIMELINE: &str = "/podward/timeline";
}

/// Pods with their statuses. They stay JSON because they contain the nulls that upstream's kubelet writes, which
/// [`k8s_openapi::api::core::v1::Pod`] drops.
#[derive(Clone, Debug, Deserialize)]
pub struct PodList {
    pub items: Vec<Value>,
}

/// Events, the one that happened last at the end.
pub type EventList = List<Event>;

/// One line of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchEvent<T> {
    /// `None` in a bookmark.
    pub object: Option<T>,
    #[serde(rename = "type")]
    pub kind: WatchEventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchEventKind {
    Added,
    Modified,
    Deleted,
    /// The objects that existed at the start of the watch have all been sent.
    Bookmark,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentVersion {
    /// The Kubernetes version that the agent reports in the Node object.
    pub kubelet: String,
    pub node: String,
    pub version: String,
}

/// Where pods come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub struct SourceList {
    pub files: Vec<FileReport>,
    pub sources: Vec<SourceReport>,
}

/// The state of one source of pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceReport {
    /// The path, or the URL without user, password and query.
    #[serde(rename = "place")]
    pub location: String,
    /// How many pods the source wants.
    pub pods: usize,
    /// Why the source is failing.
    pub problem: Option<String>,
    /// When the source entered this state.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
    pub source: PodSource,
    pub state: SourceState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceState {
    /// Not read yet.
    Waiting,
    Good,
    /// The last read failed; the pods of the last successful read stay desired.
    Failing,
}

impl SourceState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Good => "Good",
            Self::Failing => "Failing",
        }
    }
}

/// The state of one manifest file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    pub path: PathBuf,
    pub state: FileState,
    /// Errors, with line and field.
    pub problems: Vec<String>,
    pub warnings: Vec<String>,
    /// The desired pods that the file defines.
    pub pods: Vec<String>,
    /// The ConfigMaps and Secrets that the file defines.
    pub objects: Vec<String>,
    /// When the file entered this state.
    #[serde(with = "rfc3339")]
    pub since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileState {
    Accepted,
    /// The file is invalid, and no earlier version was valid.
    Rejected,
    /// The file is invalid; the pods of its last valid version stay desired.
    LastGoodVersion,
}

impl FileState {
    /// The value of the metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::LastGoodVersion => "last_good_version",
        }
    }
}

/// Why a pod is in its present state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    pub causes: Vec<String>,
    pub namespace: String,
    /// When the agent tries again.
    #[serde(with = "optional_rfc3339")]
    pub next_try: Option<Timestamp>,
    /// The agent's time, for the distance to `next_try`.
    #[serde(with = "rfc3339")]
    pub now: Timestamp,
    pub pod: String,
    pub sentence: String,
    pub uid: String,
    pub verdict: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub struct TimelineList {
    pub items: Vec<Timeline>,
}

/// The steps from a pod's first appearance in a source to its readiness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// When the pod's worker accepted it.
    #[serde(with = "rfc3339")]
    pub accepted_at: Timestamp,
    pub namespace: String,
    pub pod: String,
    /// Whether the pod was running before this agent started, so that its start is unknown.
    pub ran_before: bool,
    #[serde(with = "optional_rfc3339")]
    pub ready_at: Option<Timestamp>,
    /// When a source first listed the pod.
    #[serde(with = "rfc3339")]
    pub seen_at: Timestamp,
    pub steps: Vec<TimelineStep>,
    pub uid: String,
}

/// The first run of a step, and the last one if the step was repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineStep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// How often the step was started.
    pub count: u32,
    #[serde(with = "optional_rfc3339")]
    pub finished_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<TimelineSpan>,
    pub milliseconds: Option<f64>,
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    pub step: StartStep,
    pub succeeded: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineSpan {
    /// `None` while the step is running.
    #[serde(with = "optional_rfc3339")]
    pub finished_at: Option<Timestamp>,
    pub milliseconds: Option<f64>,
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    pub succeeded: bool,
}

mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::Timestamp;

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    pub(super) fn parse<E: de::Error>(text: &str) -> Result<Timestamp, E> {
        let time: jiff::Timestamp = text.parse().map_err(E::custom)?;
        i64::try_from(time.as_nanosecond()).map(Timestamp::from_nanos).map_err(E::custom)
    }
}

mod optional_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::rfc3339;
    use crate::Timestamp;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => rfc3339::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.as_deref().map(rfc3339::parse).transpose()
    }
}

#[cfg(test)]
mod tests;
