//! Volumes of pods on disk and in memory.

mod host_path;
mod tear_down;
#[cfg(test)]
mod tests;

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::PodUid;
use ports::pod_folders::FileError;
use ports::pod_volumes::{PodVolumes, VolumeError, VolumePlan};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::atomic_file;
use crate::failure::{OnPath, blocking, refused};
use crate::folder::Folder;
use crate::pod_folders::{PRIVATE, existing_pod, make_pod};

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
const READY: &str = "ready";
/// Containers of any user share an emptyDir.
const EVERYBODY: u32 = 0o777;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// [`PodVolumes`] below the agent's root folder.
#[derive(Clone, Debug)]
pub struct HostPodVolumes {
    root: PathBuf,
}

impl HostPodVolumes {
    /// `root` is such as `/var/lib/kubelet`; the paths of plans for pod-owned volumes lie below it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn set_up_now(&self, uid: &PodUid, plan: &VolumePlan) -> Result<(), VolumeError> {
        match plan {
            VolumePlan::EmptyDir { path } => Ok(set_up_disk(&self.volume(uid, path)?)?),
            VolumePlan::MemoryDir { path, size_limit } => {
                Ok(set_up_memory(&self.volume(uid, path)?, *size_limit)?)
            }
            VolumePlan::HostPath { path, kind } => host_path::set_up(path, *kind),
        }
    }

    fn volume(&self, uid: &PodUid, path: &Path) -> Result<Volume, FileError> {
        let pod = make_pod(&self.root, uid)?;
        let relative = path.strip_prefix(pod.path()).ok();
        let place = relative.and_then(|relative| relative.parent().zip(relative.file_name()));
        match place {
            Some((parent, name)) if parent.starts_with("volumes") => {
                let parent = pod.make_below(parent, PRIVATE)?;
                Ok(Volume { pod, parent, name: name.to_os_string() })
            }
            Some(_) | None => Err(refused("not below the volumes of the pod")).on_path("set up volume", path),
        }
    }
}

#[async_trait]
impl PodVolumes for HostPodVolumes {
    async fn set_up(&self, uid: &PodUid, plan: &VolumePlan) -> Result<(), VolumeError> {
        let (volumes, uid, plan) = (self.clone(), uid.clone(), plan.clone());
        blocking(&self.root, move || Ok(volumes.set_up_now(&uid, &plan))).await?
    }

    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let (root, uid) = (self.root.clone(), uid.clone());
        blocking(&self.root, move || {
            existing_pod(&root, &uid)?.map_or(Ok(()), |pod| tear_down::tear_down(&pod))
        })
        .await
        .map_err(VolumeError::from)
    }
}

/// Where one volume of a pod lies.
struct Volume {
    pod: Folder,
    parent: Folder,
    name: OsString,
}

impl Volume {
    fn marker(&self) -> PathBuf {
        Path::new("plugins").join(EMPTY_DIR).join(&self.name)
    }

    fn is_marked(&self) -> Result<bool, FileError> {
        match self.pod.existing(self.marker())? {
            Some(folder) => Ok(folder.stat(OsStr::new(READY))?.is_some()),
            None => Ok(false),
        }
    }

    /// Leaves the mark that upstream looks for after a restart.
    fn mark(&self) -> Result<(), FileError> {
        let marker = self.pod.make_below(self.marker(), PRIVATE)?;
        atomic_file::write(&marker, OsStr::new(READY), b"", 0o644)
    }

    /// The folder of the volume, opened up for every user.
    fn folder(&self) -> Result<Folder, FileError> {
        let folder = self.parent.make_below(&self.name, EVERYBODY)?;
        folder.set_mode(EVERYBODY)?;
        Ok(folder)
    }
}

fn set_up_disk(volume: &Volume) -> Result<(), FileError> {
    if volume.is_marked()? && volume.parent.existing(&volume.name)?.is_some() {
        return Ok(());
    }
    volume.folder()?;
    volume.mark()
}

fn set_up_memory(volume: &Volume, size_limit: Option<u64>) -> Result<(), FileError> {
    if let Some(folder) = volume.parent.existing(&volume.name)?
        && volume.parent.is_mount_point(&volume.name)?
    {
        let file_system = rustix::fs::fstatfs(&folder).on_path("look at", folder.path())?;
        if u64::try_from(file_system.f_type).ok() != Some(TMPFS_MAGIC) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists))
                .on_path("mount tmpfs over another file system at", folder.path());
        }
        return volume.mark();
    }
    let folder = volume.folder()?;
    mount_tmpfs(&folder, size_limit).on_path("mount tmpfs at", folder.path())?;
    volume.mark()
}

/// Mounts with the kernel's own mode (1777) and half of the memory if no limit is set. Volumes in memory
/// stay out of swap where the kernel can promise that (6.4 and later).
fn mount_tmpfs(folder: &Folder, size_limit: Option<u64>) -> io::Result<()> {
    let size = size_limit.filter(|size| *size > 0).map(|size| format!("size={size}")).unwrap_or_default();
    let separator = if size.is_empty() { "" } else { "," };
    let no_swap = CString::new(format!("{size}{separator}noswap"))?;
    let plain = CString::new(size)?;
    let mount = |options: &CStr| {
        rustix::mount::mount("tmpfs", folder.magic_path(), "tmpfs", MountFlags::empty(), options)
    };
    match mount(&no_swap) {
        Err(Errno::INVAL) => Ok(mount(&plain)?),
        result => Ok(result?),
    }
}
