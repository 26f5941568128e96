//! Checkpoint files.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ports::checkpoints::Checkpoints;
use ports::pod_folders::FileError;

use crate::atomic_file::Durability;
use crate::failure::{OnPath, entry_name};
use crate::folder::Folder;
use crate::state_files::{StateFiles, read};

const MAGIC: &str = "podward-checkpoint v1";

/// [`Checkpoints`] as one file each in a folder, with a header line that tells a torn or foreign file:
/// `podward-checkpoint v1 <FNV-1a 64 of the content, hex> <length>`.
///
/// A file that fails this check is an `InvalidData` error once; it is moved to `<name>.corrupt`, and from
/// then on there is no content under the name.
#[derive(Clone, Debug)]
pub struct FileCheckpoints {
    files: StateFiles,
}

impl FileCheckpoints {
    /// Keeps files in `folder`, which is made (mode 0750) with the first save.
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
        self.files.in_turn(move |path| load(path, entry_name(name)?.as_os_str())).await
    }
}

fn load(path: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, FileError> {
    let Some(bytes) = read(path, name)? else { return Ok(None) };
    decode(bytes).map(Some).or_else(|reason| {
        if let Some(folder) = Folder::open(path)? {
            set_aside(&folder, name)?;
        }
        Err(reason).on_path("load checkpoint, now set aside as .corrupt,", path.join(name))
    })
}

fn set_aside(folder: &Folder, name: &OsStr) -> Result<(), FileError> {
    let mut aside = name.to_os_string();
    aside.push(".corrupt");
    rustix::fs::renameat(folder, name, folder, &aside)
        .on_path("set aside corrupt checkpoint", folder.path().join(name))
}

fn encode(content: &[u8]) -> Vec<u8> {
    let mut bytes = header(content);
    bytes.extend_from_slice(content);
    bytes
}

fn decode(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let corrupt = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, format!("corrupt: {reason}"));
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| corrupt("no header line"))?;
    let content = bytes.split_off(end + 1);
    if bytes == header(&content) {
        return Ok(content);
    }
    if bytes.starts_with(MAGIC.as_bytes()) {
        Err(corrupt("length or checksum do not match the content"))
    } else {
        Err(corrupt("unknown header or version"))
    }
}

fn header(content: &[u8]) -> Vec<u8> {
    format!("{MAGIC} {:016x} {}\n", fnv64(content), content.len()).into_bytes()
}

/// FNV-1a, 64 bit.
fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAME: &str = "probe_verdicts";

    fn open() -> (tempfile::TempDir, FileCheckpoints) {
        let scratch = tempfile::tempdir().unwrap();
        let checkpoints = FileCheckpoints::new(scratch.path().join("state"));
        (scratch, checkpoints)
    }

    #[test]
    fn checksum_is_fnv_1a() {
        assert_eq!(fnv64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[tokio::test]
    async fn returns_what_was_saved_last() {
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
    async fn a_crash_while_saving_leaves_the_old_content() {
        let (scratch, checkpoints) = open();
        checkpoints.save(NAME, b"old".to_vec()).await.unwrap();
        let left_over = scratch.path().join("state").join(format!(".{NAME}.new"));
        std::fs::write(&left_over, "podward-checkpoint v1 00").unwrap();
        assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(b"old".to_vec()));
        checkpoints.save(NAME, b"new".to_vec()).await.unwrap();
        assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(b"new".to_vec()));
        assert!(!left_over.exists());
    }

    #[tokio::test]
    async fn a_corrupt_file_is_reported_once_and_set_aside() {
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
    async fn saves_apply_in_the_order_of_their_calls() {
        let (_scratch, checkpoints) = open();
        for round in 0..20u8 {
            let (first, second) =
                tokio::join!(checkpoints.save(NAME, vec![round, 0]), checkpoints.save(NAME, vec![round, 1]));
            first.and(second).unwrap();
            assert_eq!(checkpoints.load(NAME).await.unwrap(), Some(vec![round, 1]));
        }
    }
}
