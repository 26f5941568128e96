//! Locks between processes, on files that are never removed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::disk::{OnPath, StoreError};

/// Released when dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    pub(super) fn exclusive(path: &Path) -> Result<Self, StoreError> {
        Self::take(path, FlockOperation::LockExclusive)
    }

    pub(super) fn shared(path: &Path) -> Result<Self, StoreError> {
        Self::take(path, FlockOperation::LockShared)
    }

    /// `None` while another process or task has the lock.
    pub(super) fn try_exclusive(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            result => result.on_path("lock", path).map(|()| Some(Self { _file: file })),
        }
    }

    fn take(path: &Path, operation: FlockOperation) -> Result<Self, StoreError> {
        let file = open(path)?;
        rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation)).on_path("lock", path)?;
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .on_path("open lock", path)
}
