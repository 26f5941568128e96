//! Reads termination messages and the ends of logs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use async_trait::async_trait;
use model::PodUid;
use ports::host::pod_folders::FileError;
use ports::host::termination_messages::TerminationMessages;

use crate::errors::{OnPath, blocking, entry_name, invalid_input};
use crate::files::folder::Folder;
use crate::pods::HostPodFolders;

#[async_trait]
impl TerminationMessages for HostPodFolders {
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
        return Err(invalid_input("not below its folder")).on_path("read", path);
    };
    let Some(top) = Folder::open(folder)? else { return Ok(None) };
    let folder = if parent.as_os_str().is_empty() { Some(top) } else { top.existing(parent)? };
    let Some(folder) = folder else { return Ok(None) };
    let Some(descriptor) = folder.open_file(name)? else { return Ok(None) };
    read_end(File::from(descriptor), limit).map(Some).on_path("read", path)
}

/// The end of a regular file, based on its size when it was opened.
fn read_end(mut file: File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid_input("not a regular file"));
    }
    let length = metadata.len().min(limit);
    file.seek(SeekFrom::Start(metadata.len() - length))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode};

    use std::path::PathBuf;

    use super::*;

    struct Fixture {
        scratch: tempfile::TempDir,
        messages: HostPodFolders,
    }

    impl Fixture {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(scratch.path().join("root/pods/u/containers/main")).unwrap();
            std::fs::create_dir_all(scratch.path().join("logs/pod/main")).unwrap();
            let messages = HostPodFolders::new(scratch.path().join("root"), scratch.path().join("logs"), "");
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
    async fn reads_the_end_of_a_file() {
        let fixture = Fixture::new();
        std::fs::write(fixture.path("m"), "0123456789abcdef").unwrap();
        assert_eq!(fixture.read(&fixture.path("m")).await.unwrap().unwrap(), b"6789abcdef");
        assert_eq!(fixture.read(&fixture.path("missing")).await.unwrap(), None);
        let log = fixture.scratch.path().join("logs/pod/main/0.log");
        std::fs::write(&log, "line\n").unwrap();
        assert_eq!(fixture.messages.log_end(&log, 100).await.unwrap().unwrap(), b"line\n");
    }

    #[tokio::test]
    async fn reads_only_the_end_of_a_huge_file() {
        let fixture = Fixture::new();
        let file = File::create(fixture.path("huge")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(fixture.read(&fixture.path("huge")).await.unwrap().unwrap(), [0; 10]);
    }

    #[tokio::test]
    async fn rejects_links_fifos_devices_and_folders() {
        let fixture = Fixture::new();
        let secret = fixture.scratch.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        symlink(&secret, fixture.path("link")).unwrap();
        symlink(fixture.scratch.path(), fixture.path("parent")).unwrap();
        rustix::fs::mknodat(CWD, fixture.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(fixture.path("folder")).unwrap();
        for name in ["link", "parent/secret", "pipe", "folder"] {
            assert!(fixture.read(&fixture.path(name)).await.is_err(), "{name}");
        }
        // Creating a device needs privileges that a test may lack.
        let zero = rustix::fs::makedev(1, 5);
        if rustix::fs::mknodat(CWD, fixture.path("zero"), FileType::CharacterDevice, Mode::RUSR, zero).is_ok()
        {
            assert!(fixture.read(&fixture.path("zero")).await.is_err());
        }
    }

    #[tokio::test]
    async fn rejects_paths_outside_of_the_folders() {
        let fixture = Fixture::new();
        let secret = fixture.scratch.path().join("root/secret");
        std::fs::write(&secret, "secret").unwrap();
        let dots = fixture.path("../../../../secret");
        for path in [secret.as_path(), dots.as_path(), Path::new("/etc/passwd")] {
            assert!(fixture.read(path).await.is_err(), "{}", path.display());
            assert!(fixture.messages.log_end(path, 10).await.is_err(), "{}", path.display());
        }
    }
}
