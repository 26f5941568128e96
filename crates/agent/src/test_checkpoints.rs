//! Checkpoints in memory, for tests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use ports::checkpoints::Checkpoints;
use ports::pod_folders::FileError;

#[derive(Default)]
pub(crate) struct Files(Mutex<BTreeMap<&'static str, Vec<u8>>>);

#[async_trait]
impl Checkpoints for Files {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.save_unflushed(name, content).await
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.0.lock().unwrap().insert(name, content);
        Ok(())
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }
}
