//! Files in upstream's form and place, for agents that take over from each other.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ports::checkpoints::Checkpoints;
use ports::pod_folders::FileError;
use tokio::sync::Mutex;

use crate::atomic_file::{self, Durability};
use crate::failure::{OnPath, blocking, entry_name};
use crate::folder::Folder;

/// [`Checkpoints`] as one plain file each in a folder: the content says by itself whether it is whole.
#[derive(Clone, Debug)]
pub struct StateFiles {
    folder: PathBuf,
    /// Saves take effect in the order of their calls, also of calls whose callers gave up waiting.
    order: Arc<Mutex<()>>,
}

impl StateFiles {
    /// Keeps files in `folder`, such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), order: Arc::default() }
    }

    /// Writes a file in its turn.
    pub(crate) async fn write(
        &self,
        name: &'static str,
        content: Vec<u8>,
        durability: Durability,
    ) -> Result<(), FileError> {
        self.in_turn(move |path| {
            let name = entry_name(name)?;
            let folder = Folder::make(path, 0o750)?;
            let temporary = format!(".{}.new", name.display());
            let temporary = OsStr::new(&temporary);
            atomic_file::replace(&folder, name.as_os_str(), temporary, &content, 0o600, durability)
        })
        .await
    }

    /// Does work in the folder after all work asked for earlier, also when an earlier caller gave up waiting.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let turn = Arc::clone(&self.order).lock_owned().await;
        let path = self.folder.clone();
        blocking(&self.folder, move || {
            let _turn = turn;
            work(&path)
        })
        .await
    }
}

/// The content of a file of a folder, `None` if there is none.
pub(crate) fn read(folder: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, FileError> {
    let Some(open) = Folder::open(folder)? else { return Ok(None) };
    let Some(file) = open.open_file(name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    File::from(file).read_to_end(&mut bytes).on_path("read", folder.join(name))?;
    Ok(Some(bytes))
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
        self.in_turn(move |path| read(path, entry_name(name)?.as_os_str())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn content_is_kept_as_it_is() {
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
