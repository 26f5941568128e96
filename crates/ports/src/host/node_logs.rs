//! The logs of the node itself.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use model::Timestamp;

use crate::host::log_files::LogFile;
use crate::host::pod_folders::FileError;

/// The entry at a path.
pub enum NodeLog {
    /// A regular file and its modification time.
    File(Arc<dyn LogFile>, Timestamp),
    /// A folder: the names in it, those of folders with a slash at the end.
    Folder(Vec<String>),
    /// No such entry, not a file, or outside the log folder.
    Missing,
}

/// The output of a program, in pieces. Dropping it kills the program.
pub type Output = BoxStream<'static, Result<Vec<u8>, std::io::Error>>;

/// Reads files below the log folder (`/var/log`), and the journal.
#[async_trait]
pub trait NodeLogs: Send + Sync {
    /// Opens a path relative to the log folder.
    async fn open(&self, path: &str) -> Result<NodeLog, FileError>;

    /// The output of journalctl with these arguments, which are passed on unchanged.
    fn journal(&self, arguments: Vec<String>) -> Output;
}
