use std::path::PathBuf;

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

impl VolumePlan {
    /// What containers mount.
    #[must_use]
    pub fn host_path(&self) -> &std::path::Path {
        match self {
            Self::EmptyDir { path } | Self::MemoryDir { path, .. } | Self::HostPath { path, .. } => path,
        }
    }
}

/// A volume of a pod with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVolume {
    /// Name in `spec.volumes`.
    pub name: String,
    /// How it is made ready.
    pub plan: VolumePlan,
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
