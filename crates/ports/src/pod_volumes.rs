//! Volumes of pods.

use std::path::PathBuf;

use async_trait::async_trait;
use model::PodUid;

/// How a volume is made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumePlan {
    /// An empty folder on disk, mode 0777, at `path`.
    EmptyDir {
        /// Volume folder.
        path: PathBuf,
    },
    /// An empty folder in memory (tmpfs) at `path`.
    MemoryDir {
        /// Volume folder.
        path: PathBuf,
        /// Size limit in bytes.
        size_limit: Option<u64>,
    },
    /// A path of the host, checked or made as its type asks.
    HostPath {
        /// The host's path.
        path: PathBuf,
        /// The `type` field.
        kind: HostPathKind,
    },
}

/// The `type` of a hostPath volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPathKind {
    /// No check.
    Any,
    /// An existing folder.
    Directory,
    /// A folder, made 0755 if missing.
    DirectoryOrCreate,
    /// An existing file.
    File,
    /// A file, made empty 0644 if missing.
    FileOrCreate,
    /// An existing socket.
    Socket,
    /// An existing character device.
    CharDevice,
    /// An existing block device.
    BlockDevice,
}

/// A volume that could not be set up or taken down.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The host's path is not of the asked type.
    #[error("hostPath type check failed: {} is not {expected}", path.display())]
    WrongType {
        /// The path.
        path: PathBuf,
        /// What was asked, in words such as `a directory`.
        expected: &'static str,
    },
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] crate::pod_folders::FileError),
}

/// Makes volumes ready and removes them. Every call may be repeated.
#[async_trait]
pub trait PodVolumes: Send + Sync {
    /// Makes one volume ready; a volume that is ready already (also from before an agent restart) is left as
    /// it is, with its content.
    async fn set_up(&self, uid: &PodUid, plan: &VolumePlan) -> Result<(), VolumeError>;

    /// Unmounts and empties every volume below `pods/<uid>/volumes`. Never touches what a hostPath names and
    /// never deletes across a mount.
    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError>;
}
