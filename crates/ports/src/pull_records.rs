//! What is written down of image pulls, for this agent and for one that takes over.

use async_trait::async_trait;

use crate::pod_folders::FileError;

/// Which records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRecordKind {
    /// Of pulls that were begun (`image_manager/pulling`).
    Pulling,
    /// Of images that were pulled (`image_manager/pulled`).
    Pulled,
}

/// Keeps records of pulls. A save is atomic: after a crash at any point the old or the new content is there. Calls take
/// effect in their order.
#[async_trait]
pub trait PullRecords: Send + Sync {
    /// All records of a kind, by name. What cannot be read has no content.
    async fn list(&self, kind: PullRecordKind) -> Result<Vec<(String, Vec<u8>)>, FileError>;

    /// Writes one. A record of a pull that was begun is on disk before success is told: a machine that crashes after the
    /// pull must know that the image was not there before.
    async fn save(&self, kind: PullRecordKind, name: String, content: Vec<u8>) -> Result<(), FileError>;

    /// Removes one; a missing one is no failure.
    async fn remove(&self, kind: PullRecordKind, name: String) -> Result<(), FileError>;
}
