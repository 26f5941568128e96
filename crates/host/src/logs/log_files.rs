//! Opens container logs by descriptor, for readers that follow rotation.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, stream};
use inotify::{EventStream, Inotify, WatchMask};
use ports::host::folder_watch::{ChangeHint, ChangeHints};
use ports::host::log_files::{FileIdentity, LogFile, LogFiles};
use ports::host::pod_folders::FileError;
use rustix::fs::{FileType, Stat};

use crate::errors::{OnPath, blocking, invalid_input};
use crate::files::folder::{Folder, file_type};
use crate::logs::rotated_logs::{is_rotated, locate};
use crate::pods::HostPodFolders;

/// Events in the folder of a log that a reader must notice.
const CHANGES: WatchMask = WatchMask::MODIFY
    .union(WatchMask::CREATE)
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE)
    .union(WatchMask::ONLYDIR);

impl HostPodFolders {
    async fn open_log(
        &self,
        log: &Path,
        work: impl FnOnce(&Folder, &str) -> Result<Option<HostLogFile>, FileError> + Send + 'static,
    ) -> Result<Option<Arc<dyn LogFile>>, FileError> {
        let (pod_logs, path) = (self.pod_logs.clone(), log.to_path_buf());
        let found = blocking(log, move || match locate(&pod_logs, &path) {
            Ok((folder, name)) => work(&folder, &name),
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        });
        Ok(found.await?.map(|file| Arc::new(file) as Arc<dyn LogFile>))
    }
}

#[async_trait]
impl LogFiles for HostPodFolders {
    async fn open(&self, log: &Path) -> Result<Option<Arc<dyn LogFile>>, FileError> {
        self.open_log(log, HostLogFile::open).await
    }

    async fn successor(&self, log: &Path, of: FileIdentity) -> Result<Option<Arc<dyn LogFile>>, FileError> {
        self.open_log(log, move |folder, log| {
            let Some(current) = folder.stat(OsStr::new(log))? else { return Ok(None) };
            if identity(&current) == of {
                return Ok(None);
            }
            HostLogFile::open(folder, &name_after(folder, log, of)?)
        })
        .await
    }

    fn changes(&self, log: &Path) -> ChangeHints {
        match watch(&self.pod_logs, log) {
            Ok(events) => stream::unfold(events, |mut events| async move {
                let first = events.next().await?;
                // Report a burst of events as one hint.
                while let Some(Some(Ok(_))) = events.next().now_or_never() {}
                Some((first.map(|_| ChangeHint::default()), events))
            })
            .boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

/// The name of the file that follows `of`: the oldest newer rotated file, or the current log.
fn name_after(folder: &Folder, log: &str, of: FileIdentity) -> Result<String, FileError> {
    let names = folder.names()?;
    // Compressed and temporary files have a suffix.
    let is_uncompressed = |name: &&str| {
        is_rotated(log, name) && name.bytes().next_back().is_some_and(|byte| byte.is_ascii_digit())
    };
    let mut rotated: Vec<&str> =
        names.iter().filter_map(|name| name.to_str()).filter(is_uncompressed).collect();
    // The names are timestamps.
    rotated.sort_unstable();
    let mut seen = false;
    for name in rotated {
        if seen {
            return Ok(name.to_owned());
        }
        seen = folder.stat(OsStr::new(name))?.is_some_and(|stat| identity(&stat) == of);
    }
    Ok(log.to_owned())
}

fn watch(pod_logs: &Path, log: &Path) -> io::Result<EventStream<Vec<u8>>> {
    let (folder, _) = locate(pod_logs, log).map_err(|error| error.source)?;
    let inotify = Inotify::init()?;
    // Through the descriptor, so that exactly the opened folder is watched.
    inotify.watches().add(folder.magic_path(), CHANGES)?;
    inotify.into_event_stream(vec![0; 4096])
}

#[derive(Debug)]
pub(crate) struct HostLogFile {
    file: Arc<File>,
    path: PathBuf,
    identity: FileIdentity,
}

impl HostLogFile {
    fn open(folder: &Folder, name: &str) -> Result<Option<Self>, FileError> {
        let path = folder.path().join(name);
        let Some(descriptor) = folder.open_file(OsStr::new(name))? else { return Ok(None) };
        Self::from_descriptor(descriptor, path).map(Some)
    }

    pub(crate) fn from_descriptor(descriptor: OwnedFd, path: PathBuf) -> Result<Self, FileError> {
        let stat = rustix::fs::fstat(&descriptor).on_path("stat", &path)?;
        if file_type(&stat) != FileType::RegularFile {
            return Err(invalid_input("is not a regular file")).on_path("open log", path);
        }
        Ok(Self { file: Arc::new(File::from(descriptor)), path, identity: identity(&stat) })
    }
}

#[async_trait]
impl LogFile for HostLogFile {
    fn identity(&self) -> FileIdentity {
        self.identity
    }

    async fn size(&self) -> Result<u64, FileError> {
        self.file.metadata().map(|metadata| metadata.len()).on_path("stat", &self.path)
    }

    async fn read_at(&self, offset: u64, limit: usize) -> Result<Vec<u8>, FileError> {
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        blocking(&self.path, move || {
            let mut bytes = vec![0; limit];
            let count = file.read_at(&mut bytes, offset).on_path("read log", path)?;
            bytes.truncate(count);
            Ok(bytes)
        })
        .await
    }
}

fn identity(stat: &Stat) -> FileIdentity {
    FileIdentity { device: stat.st_dev, number: stat.st_ino }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn logs() -> (tempfile::TempDir, HostPodFolders, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path().join("pods");
        fs::create_dir_all(top.join("ns_pod_uid/main")).unwrap();
        let log = top.join("ns_pod_uid/main/0.log");
        (scratch, HostPodFolders::new("", top, ""), log)
    }

    async fn text(file: &Arc<dyn LogFile>) -> String {
        String::from_utf8(file.read_at(0, 100).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn reads_at_any_offset_even_after_a_rename() {
        let (_scratch, files, log) = logs();
        assert!(files.open(&log).await.unwrap().is_none());
        fs::write(&log, "hello").unwrap();
        let file = files.open(&log).await.unwrap().unwrap();
        fs::rename(&log, log.with_extension("log.20260101-000000")).unwrap();
        assert_eq!(file.read_at(1, 3).await.unwrap(), b"ell");
        assert_eq!((file.size().await.unwrap(), file.read_at(5, 3).await.unwrap()), (5, Vec::new()));
    }

    #[tokio::test]
    async fn finds_the_successor_of_a_rotated_log() {
        let (_scratch, files, log) = logs();
        fs::write(&log, "1").unwrap();
        let first = files.open(&log).await.unwrap().unwrap();
        let next = async || files.successor(&log, first.identity()).await.unwrap();
        assert!(next().await.is_none(), "it is still the current log");
        fs::rename(&log, log.with_extension("log.20260101-000000")).unwrap();
        assert!(next().await.is_none(), "there is no new log yet");
        fs::write(&log, "2").unwrap();
        assert_eq!(text(&next().await.unwrap()).await, "2");
        fs::rename(&log, log.with_extension("log.20260101-000001")).unwrap();
        fs::write(&log, "3").unwrap();
        assert_eq!(text(&next().await.unwrap()).await, "2", "a rotated file comes first");
        fs::remove_file(log.with_extension("log.20260101-000000")).unwrap();
        assert_eq!(text(&next().await.unwrap()).await, "3", "its position in the order is unknown");
    }

    #[tokio::test]
    async fn rejects_links_and_paths_outside_of_the_log_folder() {
        let (scratch, files, log) = logs();
        let secret = scratch.path().join("secret");
        fs::write(&secret, "no").unwrap();
        symlink(&secret, &log).unwrap();
        assert!(files.open(&log).await.is_err());
        symlink(scratch.path(), log.parent().unwrap().join("folder")).unwrap();
        assert!(files.open(&log.parent().unwrap().join("folder/secret")).await.is_err());
        assert!(files.open(&secret).await.is_err());
        assert!(files.open(log.parent().unwrap()).await.is_err(), "a folder is not a log");
    }

    #[tokio::test]
    async fn writes_and_renames_produce_hints() {
        let (_scratch, files, log) = logs();
        fs::write(&log, "1").unwrap();
        let mut changes = files.changes(&log);
        fs::write(&log, "12").unwrap();
        changes.next().await.unwrap().unwrap();
        fs::rename(&log, log.with_extension("log.20260101-000000")).unwrap();
        changes.next().await.unwrap().unwrap();
        assert!(changes.next().now_or_never().is_none(), "nothing else happened");
    }
}
