use std::path::{Path, PathBuf};

use crate::{
    CsiAccess, CsiPod, CsiSize, CsiVolume, DiskUse, FcDisk, FlexVolume, ImageSpec, IscsiDisk, ProjectedFile,
    VolumeLabel, VolumeSecret,
};

/// How a volume is made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumePlan {
    /// An empty folder on disk, mode 0777, at `path`.
    EmptyDir { path: PathBuf },
    /// An empty folder in memory (tmpfs) at `path`.
    MemoryDir {
        path: PathBuf,
        /// Size limit in bytes.
        size_limit: Option<u64>,
    },
    /// An empty folder of huge pages (hugetlbfs) at `path`.
    HugePagesDir {
        path: PathBuf,
        /// Size of a page in bytes.
        page_size: u64,
    },
    /// Files that the agent writes: configMap, secret, downwardAPI and projected volumes. Setting the volume up
    /// again with other files replaces them all at once.
    Files {
        path: PathBuf,
        /// Where the files are kept.
        storage: FileStorage,
        files: Vec<ProjectedFile>,
        /// Folders below the volume that other volumes of a container are mounted on; containers cannot make
        /// them, since they see the volume read-only.
        mount_points: Vec<PathBuf>,
    },
    /// A share of an NFS server, mounted at `path`.
    Nfs {
        path: PathBuf,
        /// `server:/export`.
        source: String,
        /// Whether it is mounted read-only.
        read_only: bool,
        /// Additional mount options.
        options: Vec<String>,
    },
    /// A disk of an iSCSI target.
    Iscsi(Box<IscsiDisk>),
    /// A disk of a Fibre Channel network.
    Fc(Box<FcDisk>),
    /// A volume of a FlexVolume driver.
    Flex(Box<FlexVolume>),
    /// A folder or a disk of the host that a PersistentVolume names, bound at `path`.
    Local {
        path: PathBuf,
        /// Source of the bind mount; it must exist.
        source: LocalSource,
        /// Whether it is mounted read-only.
        read_only: bool,
        /// Additional mount options.
        options: Vec<String>,
    },
    /// A block device of the host, linked at `path`.
    Device {
        /// The link in the pod's folder, which the runtime is given.
        path: PathBuf,
        source: PathBuf,
        /// Whether containers may only read it.
        read_only: bool,
    },
    /// A volume of a CSI driver.
    Csi(Box<CsiVolume>),
    /// The content of an image, mounted by the runtime.
    Image {
        /// The image: as the user wrote it and, once it is there, as the runtime knows it.
        image: ImageSpec,
        pull_policy: Option<String>,
    },
    /// A path of the host, checked or made as its type asks.
    HostPath {
        path: PathBuf,
        /// The `type` field.
        kind: HostPathKind,
        /// Whether containers may only read it.
        read_only: bool,
    },
}

impl VolumePlan {
    /// The path that containers mount; `None` if only the runtime has it.
    pub fn host_path(&self) -> Option<&Path> {
        match self {
            Self::Image { .. } => None,
            Self::Csi(volume) => Some(&volume.path),
            Self::Iscsi(disk) => Some(&disk.path),
            Self::Fc(disk) => Some(&disk.path),
            Self::Flex(volume) => Some(&volume.path),
            Self::EmptyDir { path }
            | Self::MemoryDir { path, .. }
            | Self::HugePagesDir { path, .. }
            | Self::Files { path, .. }
            | Self::Nfs { path, .. }
            | Self::Local { path, .. }
            | Self::Device { path, .. }
            | Self::HostPath { path, .. } => Some(path),
        }
    }

    /// Whether containers see a block device.
    pub fn is_device(&self) -> bool {
        match self {
            Self::Device { .. } => true,
            Self::Csi(volume) => volume.access == CsiAccess::Block,
            Self::Iscsi(disk) => disk.use_as == DiskUse::Device,
            Self::Fc(disk) => disk.use_as == DiskUse::Device,
            Self::EmptyDir { .. }
            | Self::MemoryDir { .. }
            | Self::HugePagesDir { .. }
            | Self::Files { .. }
            | Self::Nfs { .. }
            | Self::Flex(_)
            | Self::Local { .. }
            | Self::Image { .. }
            | Self::HostPath { .. } => false,
        }
    }

    /// The secret that the set-up may need, for who can read it.
    pub fn secret_mut(&mut self) -> Option<&mut VolumeSecret> {
        match self {
            Self::Iscsi(disk) => Some(&mut disk.chap.secret),
            Self::Flex(volume) => Some(&mut volume.secret),
            Self::Csi(_)
            | Self::Fc(_)
            | Self::Device { .. }
            | Self::EmptyDir { .. }
            | Self::MemoryDir { .. }
            | Self::HugePagesDir { .. }
            | Self::Files { .. }
            | Self::Nfs { .. }
            | Self::Local { .. }
            | Self::Image { .. }
            | Self::HostPath { .. } => None,
        }
    }
}

/// What a local PersistentVolume names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSource {
    /// A folder or a block device.
    pub path: PathBuf,
    /// File system of a device; one without gets it.
    pub fs_type: String,
    /// Set for a claimed volume.
    pub claimed: Option<Box<ClaimedSize>>,
}

/// The sizes of a claimed volume, and the pod that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedSize {
    pub name: String,
    pub size: CsiSize,
    pub pod: CsiPod,
}

/// Steps of the way of a volume to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeStep {
    /// It is attached to the node by somebody else.
    WaitForAttach,
    /// It is made ready for all pods of the node.
    MountDevice,
    /// It is given to the pod.
    SetUp,
}

/// A volume of a pod with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedVolume {
    /// Name in `spec.volumes`.
    pub name: String,
    /// How it is made ready.
    pub plan: VolumePlan,
    /// The group its files are given to, if the pod asks for that and the kind of volume allows it.
    pub fs_group: Option<FsGroup>,
    pub label: VolumeLabel,
}

/// A group that may use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsGroup {
    pub gid: u32,
    /// When the files are gone through.
    pub change: FsGroupChange,
}

/// When the files of a volume are given to the pod's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsGroupChange {
    /// At each set-up.
    Always,
    /// Unless the volume's top folder belongs to the group already.
    OnRootMismatch,
}

/// Where the files of a volume are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileStorage {
    /// On disk (configMap).
    Disk,
    /// In memory only (secret, downwardAPI, projected).
    Memory {
        /// Size limit in bytes.
        size_limit: Option<u64>,
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
