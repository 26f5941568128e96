//! What became of each manifest file, for whoever asks.

use std::path::PathBuf;

use model::Timestamp;
use serde::Serialize;

/// What became of a manifest file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FileState {
    /// Its pods are wanted.
    Accepted,
    /// It is bad and there never was a good version.
    Rejected,
    /// It is bad; the pods of its last good version are wanted.
    LastGoodVersion,
}

impl FileState {
    /// The word used in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::LastGoodVersion => "last_good_version",
        }
    }
}

/// The state of one manifest file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// What became of it.
    pub state: FileState,
    /// What is wrong with it, by line and field.
    pub problems: Vec<String>,
    /// Fields that were ignored.
    pub warnings: Vec<String>,
    /// Pods that are wanted because of it.
    pub pods: Vec<String>,
    /// ConfigMaps and Secrets it provides.
    pub objects: Vec<String>,
    /// Since when.
    #[serde(serialize_with = "as_text")]
    pub since: Timestamp,
}

fn as_text<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}
