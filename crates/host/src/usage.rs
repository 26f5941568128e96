//! What cgroups, networks and disks use, read from the kernel's files when somebody asks.
//!
//! One call reads for many cgroups on one blocking thread; nothing is kept between calls.

mod disks;
mod files;
mod limits;
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
use ports::pod_folders::FileError;
use ports::usage::{CgroupWithChildren, Detail, PodCgroup, Usage};

use crate::mount_table;
pub(crate) use disks::room;
use files::Folder;

/// [`Usage`] of this machine.
#[derive(Clone, Debug)]
pub struct HostUsage {
    places: Arc<Places>,
}

/// Where the kernel shows things.
#[derive(Debug)]
struct Places {
    cgroups: Cgroups,
    proc: PathBuf,
    sys: PathBuf,
}

/// Where cgroups are.
#[derive(Debug)]
enum Cgroups {
    /// One place for each controller.
    V1(BTreeMap<String, PathBuf>),
    /// One place for all.
    V2(PathBuf),
}

impl HostUsage {
    /// Reads cgroups below `root`, such as `/sys/fs/cgroup`, which are of that version.
    ///
    /// # Errors
    /// When the table of mounts cannot be read.
    pub fn new(root: &Path, version: CgroupVersion) -> Result<Self, FileError> {
        let cgroups = match version {
            CgroupVersion::V2 => Cgroups::V2(root.to_path_buf()),
            CgroupVersion::V1 => {
                let mounts = mount_table::read(Path::new(mount_table::OWN))?;
                Cgroups::V1(controllers(&mounts, root))
            }
        };
        Ok(Self::with(cgroups, "/proc", "/sys"))
    }

    fn with(cgroups: Cgroups, proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self { places: Arc::new(Places { cgroups, proc: proc.into(), sys: sys.into() }) }
    }

    async fn on_blocking_thread<T: Send + Default + 'static>(
        &self,
        work: impl FnOnce(&Places) -> T + Send + 'static,
    ) -> T {
        let places = Arc::clone(&self.places);
        // A lost thread means that the agent stops.
        tokio::task::spawn_blocking(move || work(&places)).await.unwrap_or_default()
    }
}

/// The place of each controller of v1.
fn controllers(mounts: &[mount_table::Mount], root: &Path) -> BTreeMap<String, PathBuf> {
    let mut places = BTreeMap::new();
    for mount in mount_table::at_or_below(mounts, root).into_iter().filter(|mount| mount.fs_type == "cgroup")
    {
        for option in mount.super_options.split(',') {
            places.entry(option.to_owned()).or_insert_with(|| mount.mount_point.clone());
        }
    }
    places
}

#[async_trait]
impl Usage for HostUsage {
    async fn cgroups(&self, paths: Vec<String>, detail: Detail) -> Vec<Option<CgroupUsage>> {
        self.on_blocking_thread(move |places| paths.iter().map(|path| places.cgroup(path, detail)).collect())
            .await
    }

    async fn pod_cgroups(&self, pods: Vec<PodCgroup>, detail: Detail) -> Vec<Option<CgroupWithChildren>> {
        self.on_blocking_thread(move |places| pods.iter().map(|pod| places.pod_cgroup(pod, detail)).collect())
            .await
    }

    async fn networks(&self, cgroups: Vec<String>) -> Vec<Option<Vec<InterfaceUsage>>> {
        self.on_blocking_thread(move |places| cgroups.iter().map(|path| places.network(path)).collect()).await
    }

    async fn host_network(&self) -> Vec<InterfaceUsage> {
        self.on_blocking_thread(|places| {
            network::interfaces(&places.proc.join("net/dev")).unwrap_or_default()
        })
        .await
    }

    async fn own_cgroup(&self) -> Option<String> {
        self.on_blocking_thread(Places::own_cgroup).await
    }

    async fn processes(&self) -> Option<ProcessCount> {
        self.on_blocking_thread(|places| machine::processes(&places.proc)).await
    }

    async fn topology(&self) -> CpuTopology {
        self.on_blocking_thread(|places| machine::topology(&places.sys)).await
    }

    async fn booted_at(&self) -> Option<Timestamp> {
        self.on_blocking_thread(|places| machine::booted_at(&places.proc)).await
    }

    async fn disks(&self) -> Vec<MountedDisk> {
        self.on_blocking_thread(|places| disks::mounted(&places.proc)).await
    }
}

/// A cgroup whose folders were found.
enum Open {
    V1(v1::Folders),
    V2(Folder),
}

impl Open {
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

impl Places {
    fn cgroup(&self, path: &str, detail: Detail) -> Option<CgroupUsage> {
        self.read(&self.open(path)?, path, detail)
    }

    fn open(&self, path: &str) -> Option<Open> {
        match &self.cgroups {
            Cgroups::V1(controllers) => v1::Folders::open(controllers, path).map(Open::V1),
            Cgroups::V2(root) => Folder::open(&files::below(root, path)).map(Open::V2),
        }
    }

    fn read(&self, open: &Open, path: &str, detail: Detail) -> Option<CgroupUsage> {
        let proc = &self.proc;
        match (&self.cgroups, open) {
            (Cgroups::V1(controllers), Open::V1(folders)) => {
                v1::read(&v1::Cgroup { controllers, path, proc, folders }, detail)
            }
            (Cgroups::V2(root), Open::V2(folder)) => {
                v2::read(&v2::Cgroup { root, path, proc, folder }, detail)
            }
            (Cgroups::V1(_), Open::V2(_)) | (Cgroups::V2(_), Open::V1(_)) => None,
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

    /// A folder of the cgroup that is there in any case.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        match &self.cgroups {
            Cgroups::V1(controllers) => Some(files::below(controllers.get("cpuacct")?, path)),
            Cgroups::V2(root) => Some(files::below(root, path)),
        }
    }

    /// The network of a cgroup's first process.
    fn network(&self, path: &str) -> Option<Vec<InterfaceUsage>> {
        let process = files::lines(&self.folder(path)?.join("cgroup.procs")).into_iter().next()?;
        network::interfaces(&self.proc.join(process).join("net/dev"))
    }

    /// On v1 CPU and memory have to agree, or the process is in no cgroup that stands for it.
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
