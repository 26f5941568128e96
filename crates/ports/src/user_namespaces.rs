//! The ranges of user ids that pods were given.

use model::PodUid;

use crate::pod_folders::FileError;

/// Keeps one small text per pod, beside its folder's other files. Calls wait for the disk: they are for
/// blocking threads.
pub trait UserNamespaceRecords: Send + Sync {
    /// Every pod that has a record, with its text.
    ///
    /// # Errors
    /// When the records cannot be listed or one cannot be read.
    fn all(&self) -> Result<Vec<(PodUid, String)>, FileError>;

    /// Records a text. It outlives the machine once this returns.
    ///
    /// # Errors
    /// When it cannot be written; nothing is recorded then.
    fn write(&self, uid: &PodUid, text: &str) -> Result<(), FileError>;

    /// Forgets a pod's text; a missing one is no failure.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, uid: &PodUid) -> Result<(), FileError>;
}
