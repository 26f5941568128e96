//! Checkpoints in memory, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use ports::checkpoints::Checkpoints;
use ports::pod_folders::FileError;
use tokio::sync::watch;

/// Files, each with how often it was written.
#[derive(Default)]
pub(crate) struct Files {
    files: Mutex<BTreeMap<&'static str, (u32, Vec<u8>)>>,
    writes: watch::Sender<u32>,
    failures: Mutex<u32>,
}

impl Files {
    /// How often a file was written, and what it says.
    pub(crate) fn read(&self, name: &str) -> Option<(u32, Vec<u8>)> {
        self.files.lock().unwrap().get(name).cloned()
    }

    /// Refuses the next writes, as a full disk does.
    pub(crate) fn fail(&self, times: u32) {
        *self.failures.lock().unwrap() = times;
    }

    fn refusal(&self) -> Result<(), FileError> {
        let mut failures = self.failures.lock().unwrap();
        let Some(left) = failures.checked_sub(1) else { return Ok(()) };
        *failures = left;
        let source = std::io::ErrorKind::StorageFull.into();
        Err(FileError { operation: "write", path: "checkpoint".into(), source })
    }

    /// How often anything was written.
    pub(crate) fn writes(&self) -> watch::Receiver<u32> {
        self.writes.subscribe()
    }
}

#[async_trait]
impl Checkpoints for Files {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.refusal()?;
        let writes = self.read(name).map_or(0, |(writes, _)| writes);
        self.files.lock().unwrap().insert(name, (writes + 1, content));
        self.writes.send_modify(|writes| *writes += 1);
        // As with a real disk, others have their turn meanwhile.
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
