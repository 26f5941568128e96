//! Records of the user ID ranges of pods.

use model::PodUid;

use crate::host::pod_folders::FileError;

/// Stores one small text per pod in its folder. Calls block on the disk: use a blocking thread.
pub trait UserNamespaceRecords: Send + Sync {
    /// Every pod that has a record, with its text.
    ///
    /// # Errors
    /// When the records cannot be listed or one cannot be read.
    fn all(&self) -> Result<Vec<(PodUid, String)>, FileError>;

    /// Writes a record and flushes it to disk.
    ///
    /// # Errors
    /// When it cannot be written; nothing is recorded then.
    fn write(&self, uid: &PodUid, text: &str) -> Result<(), FileError>;

    /// Removes a pod's record; a missing one is not a failure.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, uid: &PodUid) -> Result<(), FileError>;
}
