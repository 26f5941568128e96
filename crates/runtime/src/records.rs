//! Records of sandboxes and containers on disk.
//!
//! A record is written when the object is begun (`Preparing`), and again when it is complete, so that what a killed runtime left half
//! done is found and undone. Files are replaced in one step. Messages of CRI inside of records keep their encoding, so that fields
//! that this release does not know survive.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use cri::v1::{ContainerConfig, LinuxContainerResources, PodSandboxConfig};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::launcher::User;

/// The version of this release's records.
pub(crate) const VERSION: u32 = 1;
/// Far more than a record needs. A specification contains a seccomp program.
const MAX_RECORD_BYTES: u64 = 16 << 20;

#[derive(Debug, Error)]
pub enum RecordError {
    #[error("{operation} {path:?}")]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("record {path:?} is damaged: {message}")]
    Damaged { path: PathBuf, message: String },
    #[error("record {path:?} was written by a newer release")]
    Newer { path: PathBuf },
}

/// Adds operation and path to an error of the file system.
pub(crate) trait OnFile<T> {
    fn on_file(self, operation: &'static str, path: &Path) -> Result<T, RecordError>;
}

impl<T, E: Into<io::Error>> OnFile<T> for Result<T, E> {
    fn on_file(self, operation: &'static str, path: &Path) -> Result<T, RecordError> {
        self.map_err(|source| RecordError::File { operation, path: path.to_owned(), source: source.into() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Progress {
    /// Being made. After a restart it is undone.
    Preparing,
    Complete,
}

/// A sandbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) version: u32,
    pub(crate) id: String,
    pub(crate) progress: Progress,
    #[serde(with = "message")]
    pub(crate) config: PodSandboxConfig,
    #[serde(default)]
    pub(crate) runtime_handler: String,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// The boot of the machine in which it was made. Nothing of it runs in another boot.
    pub(crate) boot_id: String,
    /// The folder with socket and namespaces.
    pub(crate) folder: PathBuf,
    /// Path of the container's cgroup in each hierarchy.
    pub(crate) cgroup: PathBuf,
    /// The preferred address first.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Everything that it used was released.
    #[serde(default)]
    pub(crate) stopped: bool,
}

/// A container, without what changes while it lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) version: u32,
    pub(crate) id: String,
    pub(crate) sandbox: String,
    pub(crate) progress: Progress,
    #[serde(with = "message")]
    pub(crate) config: ContainerConfig,
    pub(crate) created_at: i64,
    /// Id of the image.
    pub(crate) image_id: String,
    /// A digest name of the image, or else its id.
    pub(crate) image_ref: String,
    /// The image name that users see.
    pub(crate) image_name: String,
    /// The signal that asks the container to end, from the request or the image.
    pub(crate) stop_signal: String,
    pub(crate) user: Option<User>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) cgroup: PathBuf,
    /// A namespace of the container's own, where the kernel ends all other processes with the first one.
    pub(crate) own_pid_namespace: bool,
}

/// The part of a container's record that changes while it exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusRecord {
    pub(crate) state: LifeState,
    #[serde(with = "message")]
    pub(crate) resources: LinuxContainerResources,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LifeState {
    Created,
    Running { pid: u32, started_at: i64 },
    Exited(Exit),
}

/// How a container ended, in the terms of CRI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) started_at: i64,
    pub(crate) finished_at: i64,
}

/// The `version` of a record whose other fields may be unknown.
#[derive(Deserialize)]
struct VersionOnly {
    #[serde(default)]
    version: u32,
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let size = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.on_file("read", path)?.len(),
    };
    let damaged = |message: String| RecordError::Damaged { path: path.to_owned(), message };
    if size > MAX_RECORD_BYTES {
        return Err(damaged(format!("{size} bytes")));
    }
    let text = fs::read(path).on_file("read", path)?;
    let version: VersionOnly = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
    if version.version > VERSION {
        return Err(RecordError::Newer { path: path.to_owned() });
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| damaged(error.to_string()))
}

/// Replaces a record, so that a reader sees the old or the new one, also after a power failure.
pub(crate) fn write(path: &Path, record: &impl Serialize) -> Result<(), RecordError> {
    let text = serde_json::to_vec(record).map_err(io::Error::from).on_file("encode", path)?;
    let temporary = path.with_extension("tmp");
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).on_file("write", path)?;
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).on_file("flush", folder)
}

/// Makes a folder with those above it. Only root may enter it.
pub(crate) fn make_folder(path: &Path) -> Result<(), RecordError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).on_file("make folder", path)
}

/// Names of the folders in a folder; none if it does not exist.
pub(crate) fn subfolders(path: &Path) -> Result<Vec<String>, RecordError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.on_file("list", path)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.on_file("list", path)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Encodes a message of CRI as base64 text.
mod message {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<M: prost::Message, S: Serializer>(
        message: &M,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(message.encode_to_vec()))
    }

    pub(super) fn deserialize<'de, M: prost::Message + Default, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<M, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        M::decode(bytes.as_slice()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use cri::v1::PodSandboxMetadata;

    use super::*;

    fn record() -> SandboxRecord {
        let metadata =
            PodSandboxMetadata { name: "web".into(), uid: "u".into(), namespace: "n".into(), attempt: 1 };
        SandboxRecord {
            version: VERSION,
            id: "a".repeat(64),
            progress: Progress::Complete,
            config: PodSandboxConfig { metadata: Some(metadata), ..PodSandboxConfig::default() },
            runtime_handler: String::new(),
            created_at: 5,
            boot_id: "b".into(),
            folder: "/run/p".into(),
            cgroup: "pods/a".into(),
            addresses: vec!["10.0.0.2".into()],
            stopped: false,
        }
    }

    #[test]
    fn record_survives_a_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.json");
        assert_eq!(read::<SandboxRecord>(&path).unwrap(), None);
        write(&path, &record()).unwrap();
        assert_eq!(read::<SandboxRecord>(&path).unwrap(), Some(record()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn record_of_a_newer_release_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.json");
        write(&path, &SandboxRecord { version: VERSION + 1, ..record() }).unwrap();
        assert!(matches!(read::<SandboxRecord>(&path), Err(RecordError::Newer { .. })));
    }

    #[test]
    fn damaged_record_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sandbox.json");
        fs::write(&path, b"{\"version\":1,").unwrap();
        assert!(matches!(read::<SandboxRecord>(&path), Err(RecordError::Damaged { .. })));
    }
}
