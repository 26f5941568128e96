//! Checkpoints in upstream's format and location, so that a node can be switched between agents.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use tokio::sync::Mutex;

use crate::errors::{blocking, entry_name};
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::Folder;

/// [`Checkpoints`] as one plain file each in a folder, without a checksum: the content carries its own.
#[derive(Clone, Debug)]
pub struct StateFiles {
    folder: PathBuf,
    /// Orders saves by their calls, including calls whose callers stopped waiting.
    order: Arc<Mutex<()>>,
}

impl StateFiles {
    /// `folder` is the kubelet's root folder, such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), order: Arc::default() }
    }

    pub(crate) async fn write(
        &self,
        name: &'static str,
        content: Vec<u8>,
        durability: Durability,
    ) -> Result<(), FileError> {
        self.in_order(move |path| {
            let name = entry_name(name)?;
            let folder = Folder::make(path, 0o750)?;
            atomic_file::replace(&folder, name.as_os_str(), &content, 0o600, durability)
        })
        .await
    }

    /// Runs work in the folder after all work of earlier calls, even if an earlier caller stopped waiting.
    pub(crate) async fn in_order<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let guard = Arc::clone(&self.order).lock_owned().await;
        let path = self.folder.clone();
        blocking(&self.folder, move || {
            let _guard = guard;
            work(&path)
        })
        .await
    }
}

/// The content of a file, `None` if the file or its folder is missing.
pub(crate) fn read(folder: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, FileError> {
    Folder::open(folder)?.map_or(Ok(None), |folder| folder.read_file(name, "read"))
}

#[async_trait]
impl Checkpoints for StateFiles {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.write(name, content, Durability::Flushed).await
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.write(name, content, Durability::Ordered).await
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        self.in_order(move |path| read(path, entry_name(name)?.as_os_str())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stores_content_unchanged() {
        let scratch = tempfile::tempdir().unwrap();
        let files = StateFiles::new(scratch.path().join("root"));
        assert_eq!(files.load("state").await.unwrap(), None);
        for content in ["one", "two"] {
            files.save("state", content.into()).await.unwrap();
            assert_eq!(files.load("state").await.unwrap().unwrap(), content.as_bytes());
        }
        assert_eq!(std::fs::read_to_string(scratch.path().join("root/state")).unwrap(), "two");
        assert_eq!(std::fs::read_dir(scratch.path().join("root")).unwrap().count(), 1);
    }
}
