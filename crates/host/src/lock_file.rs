//! One agent at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use inotify::{Inotify, WatchMask};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// A lock that could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it: stop this one.
    #[error("lock {} is held by another process", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// The file cannot be opened or locked.
    #[error("lock {}", path.display())]
    File {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// An exclusive lock on a file, held until dropped. The kernel releases it when the process dies, so the
/// file that stays behind means nothing.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Takes the lock without waiting; the file is made (0600) if missing.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process has it.
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

/// Watches a lock file for somebody else who wants it.
///
/// # Errors
/// When the file cannot be watched.
pub fn lock_contention(path: &Path) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    const BUFFER: usize = 1024;
    let inotify = Inotify::init()?;
    inotify.watches().add(path, WatchMask::OPEN | WatchMask::DELETE_SELF)?;
    let mut events = inotify.into_event_stream([0; BUFFER])?;
    Ok(async move {
        // A watch that fails tells of nobody any more; as with upstream that counts as contention.
        let _ = events.next().await;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_opens_or_removes_the_file_is_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("lock");
        let held = LockFile::acquire(&path).unwrap();
        let mut opened = Box::pin(lock_contention(&path).unwrap());
        let early = tokio::time::timeout(std::time::Duration::from_millis(100), &mut opened).await;
        assert!(early.is_err(), "nobody came");
        assert!(matches!(LockFile::acquire(&path), Err(LockError::Held { .. })));
        opened.await;
        let removed = lock_contention(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // A file that is open is removed when it is closed.
        drop(held);
        removed.await;
        assert!(lock_contention(&path).is_err());
    }

    #[test]
    fn only_one_holds_the_lock_at_a_time() {
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
