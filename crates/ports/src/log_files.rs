//! The log files of containers, for readers.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::folder_watch::ChangeHints;
use crate::pod_folders::FileError;

/// Which file it is, whatever its name becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device.
    pub device: u64,
    /// Number on the device.
    pub number: u64,
}

/// An open log file: it stays readable when it is renamed or removed.
#[async_trait]
pub trait LogFile: Send + Sync {
    /// Which file it is.
    fn identity(&self) -> FileIdentity;

    /// Its size now.
    async fn size(&self) -> Result<u64, FileError>;

    /// Up to `most` bytes from a place on; none at the end of the file.
    async fn read_at(&self, place: u64, most: usize) -> Result<Vec<u8>, FileError>;
}

/// Opens logs below the pod log folder; everything else is refused, and so is a symlink on the way.
#[async_trait]
pub trait LogFiles: Send + Sync {
    /// Opens a log, `None` if there is none.
    async fn open(&self, log: &Path) -> Result<Option<Arc<dyn LogFile>>, FileError>;

    /// The file that the runtime wrote after that one: a rotated one that still is as it was written, or the log
    /// itself. `None` while that file is the log, or while there is no log.
    async fn successor(&self, log: &Path, of: FileIdentity) -> Result<Option<Arc<dyn LogFile>>, FileError>;

    /// Hints that a log was written, moved or made. Bursts may be joined; after an `Err` there are no more.
    fn changes(&self, log: &Path) -> ChangeHints;
}
