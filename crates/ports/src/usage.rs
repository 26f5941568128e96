//! What cgroups, networks and disks use.
//!
//! Nothing is read before it is asked for, and nobody is asked but the kernel. Readers that find nothing answer with
//! nothing: a cgroup that just went is no failure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use model::Timestamp;
use model::usage::{
    CgroupUsage, CpuTopology, DiskUse, FilesystemRoom, InterfaceUsage, MountedDisk, ProcessCount,
};

/// How much is read of each cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// CPU, memory and swap.
    Basic,
    /// Stalls and processes as well.
    Summary,
    /// Everything.
    Full,
}

/// The cgroup of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCgroup {
    /// Its path, such as `/kubepods/pod1`.
    pub path: String,
    /// The runtime's id of the pod's sandbox, whose cgroup is named after it. Only a full look reads its counters: they
    /// are in those of the pod, and nobody else shows them.
    pub sandbox: String,
}

/// A cgroup with those directly below it.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupWithChildren {
    /// The cgroup itself.
    pub usage: CgroupUsage,
    /// Those directly below, by name.
    pub children: Vec<(String, CgroupUsage)>,
}

/// Reads the kernel's counters.
#[async_trait]
pub trait Usage: Send + Sync {
    /// The cgroups at these paths, such as `/kubepods`, in their order. `/` is the whole machine.
    async fn cgroups(&self, paths: Vec<String>, detail: Detail) -> Vec<Option<CgroupUsage>>;

    /// Cgroups of pods, with those directly below.
    async fn pod_cgroups(&self, pods: Vec<PodCgroup>, detail: Detail) -> Vec<Option<CgroupWithChildren>>;

    /// The network that the processes of these cgroups see, in their order. Loopback and the ends of containers'
    /// links are left out.
    async fn networks(&self, cgroups: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>>;

    /// The network of the machine.
    async fn host_network(&self) -> Vec<InterfaceUsage>;

    /// The cgroup of this process, if it is in one of its own.
    async fn own_cgroup(&self) -> Option<String>;

    /// Processes of the machine.
    async fn processes(&self) -> Option<ProcessCount>;

    /// CPUs of the machine.
    async fn topology(&self) -> CpuTopology;

    /// When the machine was booted.
    async fn booted_at(&self) -> Option<Timestamp>;

    /// All disks that are mounted, and what happened on them.
    async fn disks(&self) -> Vec<MountedDisk>;
}

/// Reads how full file systems are and what folders take of them.
#[async_trait]
pub trait DiskUsage: Send + Sync {
    /// The file systems that hold these paths, in their order.
    async fn rooms(&self, paths: Vec<PathBuf>) -> Vec<Option<FilesystemRoom>>;

    /// The devices of the file systems that hold these paths, in their order: two paths with the same one share a disk.
    async fn devices(&self, paths: Vec<PathBuf>) -> Vec<Option<String>>;

    /// Bytes of a block device.
    async fn device_size(&self, path: &Path) -> Option<u64>;

    /// What a folder or file takes, with everything below it on the same file system; links are not followed. `None`
    /// when it does not exist, or when going through it takes longer than `limit`.
    async fn tree(&self, path: &Path, limit: Duration) -> Option<DiskUse>;

    /// What the files directly in each folder take; folders in it are left out, and a path that is a file counts itself.
    async fn files_in(&self, folders: Vec<PathBuf>) -> Vec<Option<DiskUse>>;
}
