//! The folders and small files of pods on disk.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::PodUid;

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}", path.display())]
pub struct FileError {
    /// What was tried, as a verb phrase.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed.
    pub source: std::io::Error,
}

/// Makes and removes the folders of pods (layout: `constants.md` section 7). Every call may be repeated.
#[async_trait]
pub trait PodFolders: Send + Sync {
    /// Makes `pods/<uid>` with `volumes` and `plugins`, mode 0750.
    async fn make_pod_folders(&self, uid: &PodUid) -> Result<(), FileError>;

    /// Writes a file below `pods/<uid>` (relative path) with a mode, atomically; unchanged content is kept.
    async fn write_pod_file(
        &self,
        uid: &PodUid,
        relative: &Path,
        content: &[u8],
        mode: u32,
    ) -> Result<PathBuf, FileError>;

    /// UIDs that have a folder below `pods`.
    async fn list_pod_folders(&self) -> Result<Vec<PodUid>, FileError>;

    /// Removes `pods/<uid>`. Refuses, changing nothing, while anything below is mounted or a volume still
    /// holds data.
    async fn remove_pod_folder(&self, uid: &PodUid) -> Result<(), FileError>;

    /// The group that a mounted volume of the pod belongs to if other pods have it, too; `None` if none has.
    async fn shared_group(&self, uid: &PodUid, volume: &Path) -> Result<Option<u32>, FileError>;
}
