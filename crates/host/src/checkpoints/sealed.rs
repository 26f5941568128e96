//! Encrypted checkpoints.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use values::format_version::FormatVersion;

use crate::FileCheckpoints;
use crate::checkpoints::state_files::read;
use crate::errors::OnPath;
use crate::files::atomic_file::{self, Durability};
use crate::files::folder::Folder;

const HEADER: &str = "podward-sealed v";
const FORMAT: FormatVersion = FormatVersion::new(1);
const MAGIC: &[u8] = b"podward-sealed v1\n";
/// Precedes the key in its file. Files of earlier development builds have only the key.
const KEY_MAGIC: &[u8] = b"podward-key v1\n";
const KEY_NAME: &str = "store.key";
const KEY_LENGTH: usize = 32;

/// [`Checkpoints`] as files sealed with AES-256-GCM. A copy of the folder without the key, such as a backup or a
/// discarded disk, reveals nothing, and a file that was changed or renamed is rejected.
///
/// The key file lies outside the folder, with mode 0600. It does not protect against root on this machine, who can
/// also read the memory of every process.
#[derive(Clone)]
pub struct SealedCheckpoints {
    files: FileCheckpoints,
    key: Arc<LessSafeKey>,
    folder: PathBuf,
}

impl SealedCheckpoints {
    /// Opens the store in `folder`, with the key in `key_folder`. Creates a new key if it is missing, damaged or of a newer
    /// release, which makes all existing checkpoints unreadable.
    ///
    /// # Errors
    /// If the key can be neither read nor written.
    pub fn open(folder: impl Into<PathBuf>, key_folder: &Path) -> Result<Self, FileError> {
        let folder = folder.into();
        let bytes = match read(key_folder, OsStr::new(KEY_NAME))?.as_deref().and_then(key_in) {
            Some(key) => key,
            None => new_key(key_folder)?,
        };
        let key = UnboundKey::new(&AES_256_GCM, &bytes)
            .map_err(|_| io::Error::other("not a key"))
            .on_path("use key", key_folder.join(KEY_NAME))?;
        Ok(Self { files: FileCheckpoints::new(&folder), key: Arc::new(LessSafeKey::new(key)), folder })
    }

    fn seal(&self, name: &str, mut content: Vec<u8>) -> Result<Vec<u8>, FileError> {
        let failed = |_| io::Error::other("no random numbers available, or content too long");
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed).on_path("seal", self.folder.join(name))?;
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                associated_data(name),
                &mut content,
            )
            .map_err(failed)
            .on_path("seal", self.folder.join(name))?;
        Ok([MAGIC, &nonce, &content].concat())
    }

    fn unseal(&self, name: &str, bytes: &[u8]) -> Result<Vec<u8>, FileError> {
        let line = bytes.split(|byte| *byte == b'\n').next().map(String::from_utf8_lossy).unwrap_or_default();
        if let Some(Err(newer)) = FORMAT.check_header(&line, HEADER) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, newer))
                .on_path("unseal", self.folder.join(name));
        }
        self.try_unseal(name, bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "sealed with another key or damaged"))
            .on_path("unseal", self.folder.join(name))
    }

    fn try_unseal(&self, name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = bytes.strip_prefix(MAGIC)?.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut content = sealed.to_vec();
        let length = self.key.open_in_place(nonce, associated_data(name), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

/// Authenticates the name, so that one file cannot replace another.
fn associated_data(name: &str) -> Aad<Vec<u8>> {
    Aad::from([MAGIC, name.as_bytes()].concat())
}

fn key_in(content: &[u8]) -> Option<Vec<u8>> {
    let key = content.strip_prefix(KEY_MAGIC).unwrap_or(content);
    (key.len() == KEY_LENGTH).then(|| key.to_vec())
}

fn new_key(folder: &Path) -> Result<Vec<u8>, FileError> {
    let mut key = vec![0; KEY_LENGTH];
    let path = folder.join(KEY_NAME);
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| io::Error::other("no random numbers available")).on_path("create key", &path)?;
    let open = Folder::make(folder, 0o750)?;
    let content = [KEY_MAGIC, &key].concat();
    atomic_file::replace(&open, OsStr::new(KEY_NAME), &content, 0o600, Durability::Flushed)?;
    Ok(key)
}

#[async_trait]
impl Checkpoints for SealedCheckpoints {
    async fn save(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.files.save(name, self.seal(name, content)?).await
    }

    async fn save_unflushed(&self, name: &'static str, content: Vec<u8>) -> Result<(), FileError> {
        self.files.save_unflushed(name, self.seal(name, content)?).await
    }

    async fn load(&self, name: &'static str) -> Result<Option<Vec<u8>>, FileError> {
        let Some(bytes) = self.files.load(name).await? else { return Ok(None) };
        self.unseal(name, &bytes).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn open(scratch: &Path) -> SealedCheckpoints {
        SealedCheckpoints::open(scratch.join("store"), scratch).unwrap()
    }

    #[tokio::test]
    async fn content_is_restored_and_stored_encrypted() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path());
        assert_eq!(store.load("pods").await.unwrap(), None);
        store.save("pods", b"the secret text".to_vec()).await.unwrap();
        store.save_unflushed("objects", b"".to_vec()).await.unwrap();
        // A restarted agent reads the same key.
        let store = open(scratch.path());
        assert_eq!(store.load("pods").await.unwrap().unwrap(), b"the secret text");
        assert_eq!(store.load("objects").await.unwrap().unwrap(), b"");
        let raw = std::fs::read(scratch.path().join("store/pods")).unwrap();
        assert!(!raw.windows(6).any(|window| window == b"secret"), "{raw:?}");
        let mode = |path: &str| scratch.path().join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("store.key"), mode("store/pods")), (0o600, 0o600));
    }

    #[tokio::test]
    async fn seals_equal_content_differently() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path());
        assert_ne!(store.seal("a", b"x".to_vec()).unwrap(), store.seal("a", b"x".to_vec()).unwrap());
    }

    #[tokio::test]
    async fn rejects_changed_and_renamed_files() {
        let scratch = tempfile::tempdir().unwrap();
        let store = open(scratch.path());
        let sealed = store.seal("pods", b"one".to_vec()).unwrap();
        let mut changed = sealed.clone();
        *changed.last_mut().unwrap() ^= 1;
        let cut = sealed[..sealed.len() - 1].to_vec();
        for bad in [changed, cut, b"plain".to_vec(), MAGIC.to_vec(), Vec::new()] {
            assert_eq!(store.unseal("pods", &bad).unwrap_err().source.kind(), io::ErrorKind::InvalidData);
        }
        assert!(store.unseal("objects", &sealed).is_err(), "renamed");
        assert_eq!(store.unseal("pods", &sealed).unwrap(), b"one");
    }

    #[tokio::test]
    async fn reads_key_without_header_and_names_newer_versions() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join(KEY_NAME), [7; KEY_LENGTH]).unwrap();
        let store = open(scratch.path());
        store.save("pods", b"one".to_vec()).await.unwrap();
        std::fs::write(scratch.path().join(KEY_NAME), [KEY_MAGIC, &[7; KEY_LENGTH]].concat()).unwrap();
        assert_eq!(open(scratch.path()).load("pods").await.unwrap().unwrap(), b"one");
        let error = store.unseal("pods", b"podward-sealed v2\nother").unwrap_err();
        assert!(error.source.to_string().contains("format version 2 of a newer release"), "{}", error.source);
    }

    #[tokio::test]
    async fn lost_key_makes_checkpoints_unreadable_and_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        open(scratch.path()).save("pods", b"one".to_vec()).await.unwrap();
        std::fs::write(scratch.path().join(KEY_NAME), "short").unwrap();
        let store = open(scratch.path());
        assert!(store.load("pods").await.is_err());
        store.save("pods", b"two".to_vec()).await.unwrap();
        assert_eq!(open(scratch.path()).load("pods").await.unwrap().unwrap(), b"two");
    }
}
