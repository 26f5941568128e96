//! Rotation of container logs.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::Timestamp;

use crate::host::pod_folders::FileError;

/// The file at the path of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSize {
    /// A file of that many bytes.
    Bytes(u64),
    /// There is no file.
    Missing,
    /// Not a container log: outside the log folder, a symlink, or not a regular file.
    Foreign,
}

/// Rotates logs below the pod log folder; other paths are rejected. Rotated files are beside their log:
/// `<log>.<date>-<time>`, with `.gz` when compressed and `.tmp` during the compression. Symlinks are never followed.
#[async_trait]
pub trait RotatedLogs: Send + Sync {
    /// The sizes of logs, in order.
    async fn sizes(&self, logs: Vec<PathBuf>) -> Vec<LogSize>;

    /// The names of a log's rotated regular files, including `.tmp` files.
    async fn rotated(&self, log: &Path) -> Result<Vec<String>, FileError>;

    /// Removes one rotated file; a missing one is not a failure.
    async fn remove(&self, log: &Path, name: &str) -> Result<(), FileError>;

    /// Compresses one rotated file: after a crash at any point, the plain or the compressed file exists, or both.
    async fn compress(&self, log: &Path, name: &str) -> Result<(), FileError>;

    /// Renames a log to a rotated file with a time stamp in the node's time zone, and returns the new name. Fails when that
    /// file exists.
    async fn move_away(&self, log: &Path, now: Timestamp) -> Result<String, FileError>;

    /// Renames a rotated file back to its log. Fails when a new log exists.
    async fn move_back(&self, log: &Path, name: &str) -> Result<(), FileError>;
}
