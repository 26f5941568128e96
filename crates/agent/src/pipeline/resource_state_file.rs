//! The state file of a resource manager, which is written after each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use tokio::sync::Notify;

/// Counts changes, and writes the file if it lacks some. Concurrent writers share one write.
pub(crate) struct ResourceStateFile {
    files: Arc<dyn Checkpoints>,
    name: &'static str,
    version: AtomicU64,
    written: AtomicU64,
    /// Held during a write.
    write_lock: tokio::sync::Mutex<()>,
    changed: Notify,
}

impl ResourceStateFile {
    pub(crate) fn new(files: Arc<dyn Checkpoints>, name: &'static str) -> Self {
        Self {
            files,
            name,
            version: AtomicU64::new(0),
            written: AtomicU64::new(0),
            write_lock: tokio::sync::Mutex::new(()),
            changed: Notify::new(),
        }
    }

    /// Called after the state has changed, while it is still locked.
    pub(crate) fn mark_changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }

    /// Waits for the next change that is not saved.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until all changes so far are on disk. `encode` locks the state.
    pub(crate) async fn flush(&self, encode: impl Fn() -> Vec<u8>) -> Result<(), FileError> {
        let needed = self.version.load(Ordering::Acquire);
        let is_written = || self.written.load(Ordering::Acquire) >= needed;
        if is_written() {
            return Ok(());
        }
        let _guard = self.write_lock.lock().await;
        if is_written() {
            return Ok(());
        }
        // The content may be newer than the version, never older.
        let version = self.version.load(Ordering::Acquire);
        self.files.save(self.name, encode()).await?;
        self.written.store(version, Ordering::Release);
        Ok(())
    }
}
