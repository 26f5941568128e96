//! The logs of the node itself.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use model::Timestamp;

use crate::log_files::LogFile;
use crate::pod_folders::FileError;

/// What lies at a path.
pub enum NodeLog {
    /// A regular file, and when it was changed.
    File(Arc<dyn LogFile>, Timestamp),
    /// A folder: the names in it, those of folders with a slash at the end.
    Folder(Vec<String>),
    /// Nothing, or something that leads out of the log folder, or no file.
    Missing,
}

/// What a program prints, in pieces. Dropping it ends the program.
pub type Output = BoxStream<'static, Result<Vec<u8>, std::io::Error>>;

/// Reads below the log folder (`/var/log`), never outside, and asks the journal.
#[async_trait]
pub trait NodeLogs: Send + Sync {
    /// Looks at a path, relative to the log folder.
    async fn open(&self, path: &str) -> Result<NodeLog, FileError>;

    /// What journalctl says to these arguments, each handed over as it is.
    fn journal(&self, arguments: Vec<String>) -> Output;
}
