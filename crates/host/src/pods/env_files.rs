//! Reads files of environment variables. Containers write these files, so they are untrusted.

use std::fs::File;
use std::path::Path;

use async_trait::async_trait;
use ports::host::env_files::EnvFiles;
use ports::host::pod_folders::FileError;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::errors::{OnPath, blocking, invalid_input, read_at_most};
use crate::pods::pod_folders::HostPodFolders;

const MAX_FILE_BYTES: u64 = 8 << 20;
/// Does not block on a FIFO.
const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[async_trait]
impl EnvFiles for HostPodFolders {
    async fn read(&self, volume: &Path, path: &Path) -> Result<Vec<u8>, FileError> {
        let (folder, path) = (volume.to_path_buf(), path.to_path_buf());
        blocking(volume, move || read(&folder, &path)).await
    }
}

fn read(folder: &Path, path: &Path) -> Result<Vec<u8>, FileError> {
    let full_path = folder.join(path.strip_prefix("/").unwrap_or(path));
    let root = rustix::fs::open(folder, FOLDER_FLAGS, Mode::empty()).on_path("open folder", folder)?;
    let resolve = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);
    let opened = rustix::fs::openat2(&root, path, FILE_FLAGS, Mode::empty(), resolve);
    let file = File::from(opened.on_path("open file", &full_path)?);
    let metadata = file.metadata().on_path("stat file", &full_path)?;
    if !metadata.is_file() {
        return Err(invalid_input("not a regular file")).on_path("read file", &full_path);
    }
    read_at_most(file, MAX_FILE_BYTES).on_path("read file", full_path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn content(folder: &Path, path: &str) -> Result<String, FileError> {
        read(folder, Path::new(path)).map(|content| String::from_utf8(content).unwrap())
    }

    #[test]
    fn reads_files_inside_the_volume_only() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("secret"), "outside").unwrap();
        let volume = parent.path().join("volume");
        std::fs::create_dir_all(volume.join("sub")).unwrap();
        std::fs::write(volume.join("sub/env"), "inside").unwrap();
        std::fs::write(volume.join("secret"), "inside the volume").unwrap();
        symlink("sub/env", volume.join("link")).unwrap();
        symlink("../secret", volume.join("up")).unwrap();
        symlink("/secret", volume.join("absolute")).unwrap();
        symlink(parent.path().join("secret"), volume.join("host")).unwrap();
        assert_eq!(content(&volume, "sub/env").unwrap(), "inside");
        assert_eq!(content(&volume, "/sub/env").unwrap(), "inside");
        assert_eq!(content(&volume, "link").unwrap(), "inside");
        for path_to_root in ["up", "absolute", "../secret"] {
            assert_eq!(content(&volume, path_to_root).unwrap(), "inside the volume", "{path_to_root}");
        }
        assert!(content(&volume, "host").is_err());
        assert!(content(&volume, "missing").is_err());
    }

    #[test]
    fn rejects_folders_fifos_and_huge_files() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir(volume.path().join("folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            volume.path().join("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        File::create(volume.path().join("huge")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        for name in ["folder", "fifo", "huge"] {
            assert!(content(volume.path(), name).is_err(), "{name}");
        }
    }
}
