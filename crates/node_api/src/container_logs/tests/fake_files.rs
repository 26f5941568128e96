//! One log in memory, with its rotated files.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use ports::host::folder_watch::{ChangeHint, ChangeHints};
use ports::host::log_files::{FileIdentity, LogFile, LogFiles};
use ports::host::pod_folders::FileError;
use tokio::sync::watch;

type Content = Arc<Mutex<Vec<u8>>>;

/// All files, oldest first; the last one is the current log.
#[derive(Clone, Default)]
pub(super) struct FakeFiles {
    files: Arc<Mutex<Vec<Content>>>,
    rotated: Arc<Mutex<bool>>,
    changed: watch::Sender<()>,
}

impl FakeFiles {
    pub(super) fn append(&self, text: &[u8]) {
        let mut files = self.files.lock();
        if files.is_empty() || std::mem::take(&mut *self.rotated.lock()) {
            files.push(Content::default());
        }
        files.last().unwrap().lock().extend_from_slice(text);
        self.changed.send_replace(());
    }

    /// Renames the log; the next line creates a new one.
    pub(super) fn rotate(&self) {
        *self.rotated.lock() = true;
        self.changed.send_replace(());
    }

    fn file(&self, number: usize) -> Option<Arc<dyn LogFile>> {
        let content = Arc::clone(self.files.lock().get(number)?);
        Some(Arc::new(FakeFile { number, content }))
    }
}

#[async_trait]
impl LogFiles for FakeFiles {
    async fn open(&self, _log: &Path) -> Result<Option<Arc<dyn LogFile>>, FileError> {
        let count = self.files.lock().len();
        Ok(count.checked_sub(1).and_then(|last| self.file(last)))
    }

    async fn successor(&self, _log: &Path, of: FileIdentity) -> Result<Option<Arc<dyn LogFile>>, FileError> {
        Ok(self.file(usize::try_from(of.number).unwrap() + 1))
    }

    fn changes(&self, _log: &Path) -> ChangeHints {
        let mut changed = self.changed.subscribe();
        changed.mark_unchanged();
        stream::unfold(changed, |mut changed| async move {
            changed.changed().await.ok()?;
            Some((Ok(ChangeHint::default()), changed))
        })
        .boxed()
    }
}

struct FakeFile {
    number: usize,
    content: Content,
}

#[async_trait]
impl LogFile for FakeFile {
    fn identity(&self) -> FileIdentity {
        FileIdentity { device: 0, number: self.number as u64 }
    }

    async fn size(&self) -> Result<u64, FileError> {
        Ok(self.content.lock().len() as u64)
    }

    async fn read_at(&self, position: u64, max: usize) -> Result<Vec<u8>, FileError> {
        let content = self.content.lock();
        let from = usize::try_from(position).unwrap().min(content.len());
        Ok(content[from..(from + max).min(content.len())].to_vec())
    }
}
