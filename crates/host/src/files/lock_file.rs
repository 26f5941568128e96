//! A lock file, so that only one agent runs on a node.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use inotify::{Inotify, WatchMask};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock; this one must stop.
    #[error("lock {} is held by another process", path.display())]
    Held { path: PathBuf },
    #[error("lock {}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// An exclusive lock on a file, held until dropped. The kernel releases it when the process dies, so a leftover
/// file has no meaning.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Takes the lock without waiting. Creates the file with mode 0600 if it is missing.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process holds it.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File { path: path.to_path_buf(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held { path: path.to_path_buf() }),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// Returns a future that resolves when another process opens or removes the lock file.
///
/// # Errors
/// If the file cannot be watched.
pub fn lock_contention(path: &Path) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    const EVENT_BUFFER_BYTES: usize = 1024;
    let inotify = Inotify::init()?;
    inotify.watches().add(path, WatchMask::OPEN | WatchMask::DELETE_SELF)?;
    let mut events = inotify.into_event_stream([0; EVENT_BUFFER_BYTES])?;
    Ok(async move {
        // Upstream treats a failed watch as contention, too.
        let _ = events.next().await;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn detects_lock_file_contention() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let held = LockFile::acquire(&path).unwrap();
        let mut opened = Box::pin(lock_contention(&path).unwrap());
        let early = tokio::time::timeout(std::time::Duration::from_millis(100), &mut opened).await;
        assert!(early.is_err(), "contention without another process");
        assert!(matches!(LockFile::acquire(&path), Err(LockError::Held { .. })));
        opened.await;
        let removed = lock_contention(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The kernel removes an open file when it is closed.
        drop(held);
        removed.await;
        assert!(lock_contention(&path).is_err());
    }

    #[test]
    fn only_one_process_can_hold_the_lock() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let first = LockFile::acquire(&path).unwrap();
        assert!(matches!(LockFile::acquire(&path), Err(LockError::Held { .. })));
        drop(first);
        LockFile::acquire(&path).unwrap();
        let missing = scratch.path().join("missing/lock");
        assert!(matches!(LockFile::acquire(&missing), Err(LockError::File { .. })));
    }
}
