//! The log files of containers, for readers.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::host::folder_watch::ChangeHints;
use crate::host::pod_folders::FileError;

/// Identifies a file independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device.
    pub device: u64,
    /// Inode.
    pub number: u64,
}

/// An open log file: it stays readable when it is renamed or removed.
#[async_trait]
pub trait LogFile: Send + Sync {
    /// The identity of the file.
    fn identity(&self) -> FileIdentity;

    /// Its current size.
    async fn size(&self) -> Result<u64, FileError>;

    /// Reads up to `limit` bytes from an offset; empty at the end of the file.
    async fn read_at(&self, offset: u64, limit: usize) -> Result<Vec<u8>, FileError>;
}

/// Opens logs below the pod log folder. Rejects other paths and symlinks.
#[async_trait]
pub trait LogFiles: Send + Sync {
    /// Opens a log, `None` if there is none.
    async fn open(&self, log: &Path) -> Result<Option<Arc<dyn LogFile>>, FileError>;

    /// The file that the runtime wrote next after `of`: an uncompressed rotated file, or the current log. `None` while `of` is
    /// the current log, or while there is no log.
    async fn successor(&self, log: &Path, of: FileIdentity) -> Result<Option<Arc<dyn LogFile>>, FileError>;

    /// Hints that a log was written, moved or created. Bursts may be coalesced; an `Err` is the last item.
    fn changes(&self, log: &Path) -> ChangeHints;
}
