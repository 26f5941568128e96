//! Usage of cgroups, networks and disks, read from the kernel's files on every call.
//!
//! One call reads many cgroups on one blocking thread. Nothing is cached between calls.

mod disks;
mod files;
mod machine;
mod memory_threshold;
mod network;
mod pressure;
mod processes;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::usage::{CgroupUsage, CpuTopology, InterfaceUsage, MountedDisk, ProcessCount};
use model::{CgroupVersion, Timestamp};
use ports::host::pod_folders::FileError;
use ports::host::usage::{CgroupWithChildren, Detail, PodCgroup, Usage};

use crate::mount_table;
pub(crate) use disks::room;
use files::KernelFolder;

/// [`Usage`] of this machine.
#[derive(Clone, Debug)]
pub struct HostUsage {
    kernel: Arc<KernelFiles>,
}

/// Paths of the kernel's files.
#[derive(Debug)]
struct KernelFiles {
    cgroups: Cgroups,
    proc: PathBuf,
    sys: PathBuf,
}

/// Mount points of the cgroup hierarchies.
#[derive(Debug)]
enum Cgroups {
    /// Mount point by controller.
    V1(BTreeMap<String, PathBuf>),
    V2(PathBuf),
}

impl HostUsage {
    /// `root` is usually `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// If the mount table cannot be read.
    pub fn new(root: &Path, version: CgroupVersion) -> Result<Self, FileError> {
        let cgroups = match version {
            CgroupVersion::V2 => Cgroups::V2(root.to_path_buf()),
            CgroupVersion::V1 => {
                let mounts = mount_table::table()?;
                Cgroups::V1(controllers(&mounts, root))
            }
        };
        Ok(Self::with(cgroups, "/proc", "/sys"))
    }

    fn with(cgroups: Cgroups, proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self { kernel: Arc::new(KernelFiles { cgroups, proc: proc.into(), sys: sys.into() }) }
    }

    async fn on_blocking_thread<T: Send + Default + 'static>(
        &self,
        work: impl FnOnce(&KernelFiles) -> T + Send + 'static,
    ) -> T {
        let kernel = Arc::clone(&self.kernel);
        // A panicked thread stops the agent anyway.
        tokio::task::spawn_blocking(move || work(&kernel)).await.unwrap_or_default()
    }
}

/// The mount point of each v1 controller.
fn controllers(mounts: &[mount_table::Mount], root: &Path) -> BTreeMap<String, PathBuf> {
    let mut mount_points = BTreeMap::new();
    for mount in mount_table::at_or_below(mounts, root).into_iter().filter(|mount| mount.fs_type == "cgroup")
    {
        for option in mount.super_options.split(',') {
            mount_points.entry(option.to_owned()).or_insert_with(|| mount.mount_point.clone());
        }
    }
    mount_points
}

#[async_trait]
impl Usage for HostUsage {
    async fn cgroups(&self, paths: Vec<String>, detail: Detail) -> Vec<Option<CgroupUsage>> {
        self.on_blocking_thread(move |kernel| paths.iter().map(|path| kernel.cgroup(path, detail)).collect())
            .await
    }

    async fn pod_cgroups(&self, pods: Vec<PodCgroup>, detail: Detail) -> Vec<Option<CgroupWithChildren>> {
        self.on_blocking_thread(move |kernel| pods.iter().map(|pod| kernel.pod_cgroup(pod, detail)).collect())
            .await
    }

    async fn networks(&self, cgroups: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>> {
        self.on_blocking_thread(move |kernel| cgroups.iter().map(|path| kernel.network(path)).collect()).await
    }

    async fn host_network(&self) -> Vec<InterfaceUsage> {
        self.on_blocking_thread(|kernel| {
            network::interfaces(&kernel.proc.join("net/dev")).unwrap_or_default()
        })
        .await
    }

    async fn own_cgroup(&self) -> Option<String> {
        self.on_blocking_thread(KernelFiles::own_cgroup).await
    }

    async fn processes(&self) -> Option<ProcessCount> {
        self.on_blocking_thread(|kernel| machine::processes(&kernel.proc)).await
    }

    async fn topology(&self) -> CpuTopology {
        self.on_blocking_thread(|kernel| machine::topology(&kernel.sys)).await
    }

    async fn booted_at(&self) -> Option<Timestamp> {
        self.on_blocking_thread(|kernel| machine::booted_at(&kernel.proc)).await
    }

    async fn disks(&self) -> Vec<MountedDisk> {
        self.on_blocking_thread(|kernel| disks::mounted(&kernel.proc)).await
    }
}

/// The open folders of a cgroup.
enum OpenCgroup {
    V1(v1::Folders),
    V2(KernelFolder),
}

impl OpenCgroup {
    fn below(&self, name: &str) -> Option<Self> {
        match self {
            Self::V1(folders) => folders.below(name).map(Self::V1),
            Self::V2(folder) => folder.below(name).map(Self::V2),
        }
    }

    fn folders(&self) -> Vec<String> {
        match self {
            Self::V1(folders) => folders.cpu.folders(),
            Self::V2(folder) => folder.folders(),
        }
    }
}

impl KernelFiles {
    fn cgroup(&self, path: &str, detail: Detail) -> Option<CgroupUsage> {
        self.read(&self.open(path)?, path, detail)
    }

    fn open(&self, path: &str) -> Option<OpenCgroup> {
        match &self.cgroups {
            Cgroups::V1(controllers) => v1::Folders::open(controllers, path).map(OpenCgroup::V1),
            Cgroups::V2(root) => KernelFolder::open(&files::below(root, path)).map(OpenCgroup::V2),
        }
    }

    fn read(&self, open: &OpenCgroup, path: &str, detail: Detail) -> Option<CgroupUsage> {
        let proc = &self.proc;
        match (&self.cgroups, open) {
            (Cgroups::V1(controllers), OpenCgroup::V1(folders)) => {
                v1::read(&v1::Cgroup { controllers, path, proc, folders }, detail)
            }
            (Cgroups::V2(root), OpenCgroup::V2(folder)) => {
                v2::read(&v2::Cgroup { root, path, proc, folder }, detail)
            }
            (Cgroups::V1(_), OpenCgroup::V2(_)) | (Cgroups::V2(_), OpenCgroup::V1(_)) => None,
        }
    }

    fn pod_cgroup(&self, pod: &PodCgroup, detail: Detail) -> Option<CgroupWithChildren> {
        let path = &pod.path;
        let open = self.open(path)?;
        let usage = self.read(&open, path, detail)?;
        let names = open.folders();
        let child = |name: String| {
            let usage = if detail < Detail::Full && name.contains(&pod.sandbox) {
                CgroupUsage { time: usage.time, ..CgroupUsage::default() }
            } else {
                let path = format!("{}/{name}", path.trim_end_matches('/'));
                self.read(&open.below(&name)?, &path, detail)?
            };
            Some((name, usage))
        };
        let children = names.into_iter().filter_map(child).collect();
        Some(CgroupWithChildren { usage, children })
    }

    /// A folder that every cgroup has.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        match &self.cgroups {
            Cgroups::V1(controllers) => Some(files::below(controllers.get("cpuacct")?, path)),
            Cgroups::V2(root) => Some(files::below(root, path)),
        }
    }

    fn network(&self, path: &str) -> Option<Vec<InterfaceUsage>> {
        let process = files::lines(&self.folder(path)?.join("cgroup.procs")).into_iter().next()?;
        network::interfaces(&self.proc.join(process).join("net/dev"))
    }

    /// On v1 the CPU and memory cgroups must be equal, otherwise no cgroup represents the process.
    fn own_cgroup(&self) -> Option<String> {
        let lines = files::lines(&self.proc.join("self/cgroup"));
        let of = |controller: &str| {
            lines.iter().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
            })
        };
        match &self.cgroups {
            Cgroups::V2(_) => of(""),
            Cgroups::V1(_) => {
                let (cpu, memory) = (of("cpu")?, of("memory")?);
                (cpu == memory).then_some(cpu)
            }
        }
    }
}
