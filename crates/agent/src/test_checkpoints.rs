//! In-memory checkpoints for tests.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use async_trait::async_trait;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use tokio::sync::watch;

/// Checkpoint files with the number of writes of each.
#[derive(Default)]
pub(crate) struct Files {
    files: Mutex<BTreeMap<&'static str, (u32, Vec<u8>)>>,
    writes: watch::Sender<u32>,
    failures: Mutex<u32>,
}

impl Files {
    /// The number of writes of a file and its content.
    pub(crate) fn read(&self, name: &str) -> Option<(u32, Vec<u8>)> {
        self.files.lock().get(name).cloned()
    }

    /// Fails the next writes with `StorageFull`.
    pub(crate) fn fail_next_writes(&self, times: u32) {
        *self.failures.lock() = times;
    }

    fn next_failure(&self) -> Result<(), FileError> {
        let mut failures = self.failures.lock();
        let Some(left) = failures.checked_sub(1) else { return Ok(()) };
        *failures = left;
        let source = std::io::ErrorKind::StorageFull.into();
        Err(FileError { operation: "write", path: "checkpoint".into(), source })
    }

    /// The total number of writes.
    pub(crate) fn writes(&self) -> watch::Receiver<u32> {
        self.writes.subscribe()
    }
}

#[async_trait]
impl Checkpoints for Files {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.next_failure()?;
        let writes = self.read(name).map_or(0, |(writes, _)| writes);
        self.files.lock().insert(name, (writes + 1, content));
        self.writes.send_modify(|writes| *writes += 1);
        // Yields, as a real write does, so that other tasks run meanwhile.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.save(name, content).await
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.read(name).map(|(_, content)| content))
    }
}
