//! Records of image pulls on disk, in upstream's format.

use async_trait::async_trait;

use crate::host::pod_folders::FileError;

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRecordKind {
    /// Started pulls (`image_manager/pulling`).
    Pulling,
    /// Pulled images (`image_manager/pulled`).
    Pulled,
}

/// Stores records of pulls. A save is atomic: after a crash at any point, the old or the new content exists. Calls take effect
/// in order.
#[async_trait]
pub trait PullRecords: Send + Sync {
    /// All records of a kind, by name. An unreadable record has empty content.
    async fn list(&self, kind: PullRecordKind) -> Result<Vec<(String, Vec<u8>)>, FileError>;

    /// Writes a record. A record of a started pull is flushed to disk before this returns, so that after a crash of the machine
    /// the agent knows that the image was not preloaded.
    async fn save(&self, kind: PullRecordKind, name: String, content: Vec<u8>) -> Result<(), FileError>;

    /// Removes a record; a missing one is not a failure.
    async fn remove(&self, kind: PullRecordKind, name: String) -> Result<(), FileError>;
}
