//! The log files of containers as far as their rotation needs them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::Timestamp;

use crate::pod_folders::FileError;

/// What lies where a log should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSize {
    /// A file of that many bytes.
    Bytes(u64),
    /// Nothing.
    Missing,
    /// Something that is no log of ours: a path outside the log folder, a symlink, no regular file.
    Foreign,
}

/// Works on logs below the pod log folder; everything else is refused. A log's rotated files lie beside it and are
/// named by it: `<log>.<date>-<time>`, with `.gz` when compressed and `.tmp` while that is under way. Symlinks are
/// never followed.
#[async_trait]
pub trait RotatedLogs: Send + Sync {
    /// The sizes of logs, in their order, read in one go.
    async fn sizes(&self, logs: Vec<PathBuf>) -> Vec<LogSize>;

    /// The names of a log's rotated files that are regular files, unfinished ones among them.
    async fn rotated(&self, log: &Path) -> Result<Vec<String>, FileError>;

    /// Removes one rotated file; an absent one is no failure.
    async fn remove(&self, log: &Path, name: &str) -> Result<(), FileError>;

    /// Compresses one rotated file: after a crash at any point the plain or the compressed one is there, or both.
    async fn compress(&self, log: &Path, name: &str) -> Result<(), FileError>;

    /// Renames a log to a rotated file named by the time, in the node's time zone, and returns that name. Fails when
    /// there is one of that name.
    async fn move_away(&self, log: &Path, now: Timestamp) -> Result<String, FileError>;

    /// Renames a rotated file back to its log. Fails when there is a new log.
    async fn move_back(&self, log: &Path, name: &str) -> Result<(), FileError>;
}
