//! The folders and small files of pods on disk.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::PodUid;

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub struct FileError {
    /// The failed operation as a verb phrase.
    pub operation: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The system error.
    pub source: std::io::Error,
}

impl FileError {
    /// The error with its source in one line, for events.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

/// Creates and removes the folders of pods, in upstream's layout. Every call is idempotent.
#[async_trait]
pub trait PodFolders: Send + Sync {
    /// Creates `pods/<uid>` with `volumes` and `plugins`, mode 0750.
    async fn make_pod_folders(&self, uid: &PodUid) -> Result<(), FileError>;

    /// Writes a file below `pods/<uid>` atomically, with a mode. Does nothing when the content is unchanged.
    async fn write_pod_file(
        &self,
        uid: &PodUid,
        relative: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<PathBuf, FileError>;

    /// UIDs that have a folder below `pods`.
    async fn list_pod_folders(&self) -> Result<Vec<PodUid>, FileError>;

    /// Removes `pods/<uid>`. Fails without changing anything while something below is mounted or a volume still holds
    /// data.
    async fn remove_pod_folder(&self, uid: &PodUid) -> Result<(), FileError>;

    /// The group of a mounted volume that other pods use as well; `None` if no other pod uses it.
    async fn shared_group(&self, uid: &PodUid, volume: &Path) -> Result<Option<u32>, FileError>;
}
