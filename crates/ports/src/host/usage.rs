//! Use of cgroups, networks and disks.
//!
//! Values are read from the kernel on every call. A cgroup that has just been removed is not a failure: its value is `None`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use model::Timestamp;
use model::usage::{
    CgroupUsage, CpuTopology, DiskUse, FilesystemRoom, InterfaceUsage, MountedDisk, ProcessCount, TreeUse,
};

/// How many counters are read of each cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// CPU, memory and swap.
    Basic,
    /// Also pressure and processes.
    Summary,
    /// Everything.
    Full,
}

/// The cgroup of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCgroup {
    /// Its path, such as `/kubepods/pod1`.
    pub path: String,
    /// The runtime's ID of the pod's sandbox, which names its cgroup. Its counters are read only with [`Detail::Full`].
    pub sandbox: String,
}

/// A cgroup with its children.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupWithChildren {
    /// The cgroup itself.
    pub usage: CgroupUsage,
    /// The child cgroups by name.
    pub children: Vec<(String, CgroupUsage)>,
}

/// Reads the kernel's counters.
#[async_trait]
pub trait Usage: Send + Sync {
    /// The cgroups at these paths, such as `/kubepods`, in order. `/` is the whole machine.
    async fn cgroups(&self, paths: Vec<String>, detail: Detail) -> Vec<Option<CgroupUsage>>;

    /// Cgroups of pods with their children.
    async fn pod_cgroups(&self, pods: Vec<PodCgroup>, detail: Detail) -> Vec<Option<CgroupWithChildren>>;

    /// The network interfaces of the processes in these cgroups, in order. Loopback and veth interfaces are left out.
    async fn networks(&self, cgroups: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>>;

    /// The network of the machine.
    async fn host_network(&self) -> Vec<InterfaceUsage>;

    /// The cgroup of this process, unless it is the root cgroup.
    async fn own_cgroup(&self) -> Option<String>;

    /// Processes of the machine.
    async fn processes(&self) -> Option<ProcessCount>;

    /// CPUs of the machine.
    async fn topology(&self) -> CpuTopology;

    /// When the machine was booted.
    async fn booted_at(&self) -> Option<Timestamp>;

    /// All mounted disks with their I/O counters.
    async fn disks(&self) -> Vec<MountedDisk>;
}

/// Reads the use of file systems and folders.
#[async_trait]
pub trait DiskUsage: Send + Sync {
    /// The file systems of these paths, in order.
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>>;

    /// The devices of the file systems of these paths, in order. Two paths with the same device share a disk.
    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>>;

    /// Bytes of a block device.
    async fn device_size(&self, path: &Path) -> Option<u64>;

    /// The use of a folder or file, with everything below it on the same mount. Links are not followed. Counting ends after
    /// `limit`. `None` when the path does not exist, or when another call for it hangs.
    async fn tree(&self, path: &Path, limit: Duration) -> Option<TreeUse>;

    /// The use of the files directly in each folder, without subfolders. A path that is a file counts itself.
    async fn files_in(&self, folders: Vec<PathBuf>) -> Vec<Option<DiskUse>>;
}
