//! The ends of files that containers wrote to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::PodUid;
use ports::pod_folders::FileError;
use ports::termination_messages::TerminationMessages;

use crate::failure::{OnPath, blocking, entry_name, refused};
use crate::folder::Folder;

/// [`TerminationMessages`] below the root folder and the log folder.
#[derive(Clone, Debug)]
pub struct HostTerminationMessages {
    root: PathBuf,
    pod_logs: PathBuf,
}

impl HostTerminationMessages {
    /// `root` is such as `/var/lib/kubelet`, `pod_logs` such as `/var/log/pods`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, pod_logs: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), pod_logs: pod_logs.into() }
    }
}

#[async_trait]
impl TerminationMessages for HostTerminationMessages {
    async fn message_file(
        &self,
        uid: &PodUid,
        path: &Path,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, FileError> {
        let folder = self.root.join("pods").join(entry_name(uid.as_str())?).join("containers");
        let path = path.to_path_buf();
        blocking(&self.root, move || end_of_file(&folder, &path, limit)).await
    }

    async fn log_end(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
        let (folder, path) = (self.pod_logs.clone(), path.to_path_buf());
        blocking(&self.pod_logs, move || end_of_file(&folder, &path, limit)).await
    }
}

fn end_of_file(folder: &Path, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FileError> {
    let (Some(parent), Some(name)) =
        (path.strip_prefix(folder).ok().and_then(Path::parent), path.file_name())
    else {
        return Err(refused("not below the folder it belongs to")).on_path("read", path);
    };
    let Some(top) = Folder::open(folder)? else { return Ok(None) };
    let folder = if parent.as_os_str().is_empty() { Some(top) } else { top.existing(parent)? };
    let Some(folder) = folder else { return Ok(None) };
    let Some(descriptor) = folder.open_file(name)? else { return Ok(None) };
    read_end(&File::from(descriptor), limit).map(Some).on_path("read", path)
}

/// The end of a regular file, by what it was when it was opened: one that grows meanwhile is cut.
fn read_end(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("not a regular file"));
    }
    let length = metadata.len().min(limit);
    let start = metadata.len().saturating_sub(length);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, start.saturating_add(u64::try_from(read).unwrap_or(u64::MAX)))? {
            0 => break,
            count => read += count,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    struct Scene {
        scratch: tempfile::TempDir,
        messages: HostTerminationMessages,
    }

    impl Scene {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(scratch.path().join("root/pods/u/containers/main")).unwrap();
            std::fs::create_dir_all(scratch.path().join("logs/pod/main")).unwrap();
            let messages =
                HostTerminationMessages::new(scratch.path().join("root"), scratch.path().join("logs"));
            Self { scratch, messages }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.scratch.path().join("root/pods/u/containers/main").join(name)
        }

        async fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
            self.messages.message_file(&"u".into(), path, 10).await
        }
    }

    #[tokio::test]
    async fn the_end_of_a_file_is_read() {
        let scene = Scene::new();
        std::fs::write(scene.path("m"), "0123456789abcdef").unwrap();
        assert_eq!(scene.read(&scene.path("m")).await.unwrap().unwrap(), b"6789abcdef");
        assert_eq!(scene.read(&scene.path("missing")).await.unwrap(), None);
        let log = scene.scratch.path().join("logs/pod/main/0.log");
        std::fs::write(&log, "line\n").unwrap();
        assert_eq!(scene.messages.log_end(&log, 100).await.unwrap().unwrap(), b"line\n");
    }

    #[tokio::test]
    async fn a_huge_file_costs_no_more_than_its_end() {
        let scene = Scene::new();
        let file = File::create(scene.path("huge")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(scene.read(&scene.path("huge")).await.unwrap().unwrap(), [0; 10]);
    }

    #[tokio::test]
    async fn links_pipes_devices_and_folders_are_refused() {
        let scene = Scene::new();
        let secret = scene.scratch.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        symlink(&secret, scene.path("link")).unwrap();
        symlink(scene.scratch.path(), scene.path("way")).unwrap();
        rustix::fs::mknodat(CWD, scene.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(scene.path("folder")).unwrap();
        for name in ["link", "way/secret", "pipe", "folder"] {
            assert!(scene.read(&scene.path(name)).await.is_err(), "{name}");
        }
        // Making a device needs privileges that a test may lack.
        let zero = rustix::fs::makedev(1, 5);
        if rustix::fs::mknodat(CWD, scene.path("zero"), FileType::CharacterDevice, Mode::RUSR, zero).is_ok() {
            assert!(scene.read(&scene.path("zero")).await.is_err());
        }
    }

    #[tokio::test]
    async fn places_outside_are_refused() {
        let scene = Scene::new();
        let secret = scene.scratch.path().join("root/secret");
        std::fs::write(&secret, "secret").unwrap();
        let dots = scene.path("../../../../secret");
        for path in [secret.as_path(), dots.as_path(), Path::new("/etc/passwd")] {
            assert!(scene.read(path).await.is_err(), "{}", path.display());
            assert!(scene.messages.log_end(path, 10).await.is_err(), "{}", path.display());
        }
    }
}
