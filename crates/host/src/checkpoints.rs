//! Checkpoint files with a checksum.

use values::fnv::Fnv64a;
use values::format_version::{FormatVersion, NewerFormat};

mod sealed;
pub(crate) mod state_files;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;

use crate::errors::{OnPath, entry_name};
use crate::files::atomic_file::Durability;
use crate::files::folder::Folder;
use state_files::read;

pub use sealed::SealedCheckpoints;
pub use state_files::StateFiles;

const HEADER: &str = "podward-checkpoint v";
const FORMAT: FormatVersion = FormatVersion::new(1);

/// [`Checkpoints`] as one file each in a folder. A header line detects torn and foreign files:
/// `podward-checkpoint v1 <FNV-1a 64 of the content, hex> <length>`.
///
/// A file that fails this check is renamed to `<name>.corrupt` and reported once as an `InvalidData` error; later
/// loads find no checkpoint. The file of a newer release stays, and its error contains [`NewerFormat`].
#[derive(Clone, Debug)]
pub struct FileCheckpoints {
    files: StateFiles,
}

impl FileCheckpoints {
    /// Keeps files in `folder`, which the first save creates with mode 0750.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { files: StateFiles::new(folder) }
    }
}

#[async_trait]
impl Checkpoints for FileCheckpoints {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.files.write(name, encode(&content), Durability::Flushed).await
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.files.write(name, encode(&content), Durability::Ordered).await
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        self.files.in_order(move |path| load(path, entry_name(name)?.as_os_str())).await
    }
}

fn load(path: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, FileError> {
    let Some(bytes) = read(path, name)? else { return Ok(None) };
    let reason = match decode(bytes) {
        Ok(content) => return Ok(Some(content)),
        Err(DecodeError::Newer(newer)) => {
            let error = io::Error::new(io::ErrorKind::InvalidData, newer);
            return Err(error).on_path("load checkpoint", path.join(name));
        }
        Err(DecodeError::Corrupt(reason)) => reason,
    };
    if let Some(folder) = Folder::open(path)? {
        set_aside(&folder, name)?;
    }
    let error = io::Error::new(io::ErrorKind::InvalidData, format!("corrupt: {reason}"));
    Err(error).on_path("load checkpoint, now renamed to .corrupt,", path.join(name))
}

fn set_aside(folder: &Folder, name: &OsStr) -> Result<(), FileError> {
    let mut target = name.to_os_string();
    target.push(".corrupt");
    rustix::fs::renameat(folder, name, folder, &target)
        .on_path("rename corrupt checkpoint", folder.path().join(name))
}

fn encode(content: &[u8]) -> Vec<u8> {
    let mut bytes = header(content);
    bytes.extend_from_slice(content);
    bytes
}

enum DecodeError {
    Newer(NewerFormat),
    Corrupt(&'static str),
}

fn decode(mut bytes: Vec<u8>) -> Result<Vec<u8>, DecodeError> {
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    let line_end = line_end.ok_or(DecodeError::Corrupt("no header line"))?;
    let content = bytes.split_off(line_end + 1);
    let line = String::from_utf8_lossy(&bytes);
    match FORMAT.check_header(line.trim_end(), HEADER) {
        None => Err(DecodeError::Corrupt("unknown header")),
        Some(Err(newer)) => Err(DecodeError::Newer(newer)),
        Some(Ok(_)) if bytes == header(&content) => Ok(content),
        Some(Ok(_)) => Err(DecodeError::Corrupt("length or checksum do not match the content")),
    }
}

fn header(content: &[u8]) -> Vec<u8> {
    format!("{HEADER}{} {:016x} {}\n", FORMAT.newest(), Fnv64a::hash(content), content.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAME: &str = "probe_results";

    fn open() -> (tempfile::TempDir, FileCheckpoints) {
        let scratch = tempfile::tempdir().unwrap();
        let checkpoints = FileCheckpoints::new(scratch.path().join("state"));
        (scratch, checkpoints)
    }

    #[test]
    fn header_has_the_fnv_1a_checksum_and_the_length() {
        assert_eq!(header(b""), b"podward-checkpoint v1 cbf29ce484222325 0\n");
        assert_eq!(header(b"foobar"), b"podward-checkpoint v1 85944171f73967e8 6\n");
    }

    #[tokio::test]
    async fn returns_the_last_saved_content() {
        let (scratch, checkpoints) = open();
        assert_eq!(checkpoints.load(NAME).await.unwrap(), None);
        for content in [b"".to_vec(), b"one\n\0two".to_vec(), vec![0xff; 100_000]] {
            checkpoints.save(NAME, content.clone()).await.unwrap();
            assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(content));
        }
        let metadata = scratch.path().join("state").join(NAME).metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
        assert_eq!(scratch.path().join("state").read_dir().unwrap().count(), 1);
    }

    #[tokio::test]
    async fn crash_while_saving_keeps_the_old_content() {
        let (scratch, checkpoints) = open();
        checkpoints.save(NAME, b"old".to_vec()).await.unwrap();
        let leftover = scratch.path().join("state").join(format!(".{NAME}.new"));
        std::fs::write(&leftover, "podward-checkpoint v1 00").unwrap();
        assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(b"old".to_vec()));
        checkpoints.save(NAME, b"new".to_vec()).await.unwrap();
        assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(b"new".to_vec()));
        assert!(!leftover.exists());
    }

    #[tokio::test]
    async fn corrupt_file_is_reported_once_and_set_aside() {
        let (scratch, checkpoints) = open();
        let path = scratch.path().join("state").join(NAME);
        checkpoints.save(NAME, b"precious".to_vec()).await.unwrap();
        let good = std::fs::read(&path).unwrap();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let torn = good[..good.len() - 1].to_vec();
        let longer = [&good[..], b"x"].concat();
        for bad in [flipped, torn, longer, b"".to_vec(), b"{\"version\":2}\n".to_vec()] {
            std::fs::write(&path, &bad).unwrap();
            let error = checkpoints.load(NAME).await.unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::InvalidData);
            assert_eq!(std::fs::read(path.with_extension("corrupt")).unwrap(), bad);
            assert_eq!(checkpoints.load(NAME).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn newer_file_stays_and_is_reported_with_its_version() {
        let (scratch, checkpoints) = open();
        let path = scratch.path().join("state").join(NAME);
        checkpoints.save(NAME, b"old".to_vec()).await.unwrap();
        std::fs::write(&path, "podward-checkpoint v2 other fields\ncontent").unwrap();
        for _ in 0..2 {
            let error = checkpoints.load(NAME).await.unwrap_err();
            let newer = error.source.get_ref().unwrap().downcast_ref::<NewerFormat>().unwrap();
            assert_eq!(*newer, NewerFormat { found: 2, supported: 1 });
            assert_eq!(error.path, path);
        }
    }

    #[tokio::test]
    async fn saves_take_effect_in_call_order() {
        let (_scratch, checkpoints) = open();
        for round in 0..20u8 {
            let (first, second) =
                tokio::join!(checkpoints.save(NAME, vec![round, 0]), checkpoints.save(NAME, vec![round, 1]));
            first.and(second).unwrap();
            assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(vec![round, 1]));
        }
    }
}
