//! Volumes of pods on disk and in memory.

mod empty_dir;
mod fc;
mod files;
mod flex;
mod host_path;
mod iscsi;
mod journal;
pub(crate) mod local;
mod nfs;
pub(crate) mod ownership;
mod reconcile;
mod shared_disk;
mod sub_path;
mod tear_down;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::{DiskUse, FileStorage, FsGroup, PodUid, ProjectedFile, VolumeLabel};
use ports::clock::{Clock, SystemClock};
use ports::pod_folders::FileError;
use ports::pod_volumes::{
    MountReport, PlannedVolume, PodVolumes, Progress, SubPath, VolumeError, VolumePlan,
};

use rustix::io::Errno;

use crate::failure::{OnPath, blocking, refused};
use crate::folder::Folder;
use crate::foreign_files::apart;
use crate::mount_table::{mounted_at, table};
use crate::pod_folders::{PRIVATE, existing_pod, make_pod};
use crate::turns::Turns;
use empty_dir::Medium;
use fc::FibreChannel;
use flex::FlexDrivers;
use iscsi::Initiator;
use journal::Journal;
use local::node_disk;
use ownership::{Access, give_to_group};
use shared_disk::Busy;

/// Where FlexVolume drivers are.
const DRIVERS: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// Volumes that need nothing of the node but their pod's folder.
const WITHOUT_DISKS: [&str; 7] = [
    EMPTY_DIR,
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~projected",
    "kubernetes.io~downward-api",
    "kubernetes.io~nfs",
    "kubernetes.io~csi",
];
/// Folders that other volumes are mounted on.
const MOUNT_POINTS: u32 = 0o755;

/// The longest an operation may take, as upstream waits for mounts in one pass.
const DEADLINE: Duration = Duration::from_secs(123);
/// How long an operation waits for an earlier one on the same pod.
const PATIENCE: Duration = Duration::from_secs(20);

/// [`PodVolumes`] below the agent's root folder.
#[derive(Clone)]
pub struct HostPodVolumes {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    turns: Turns<PodUid>,
    mount_program: OsString,
    /// Local disks that are being given to pods.
    local_disks: Busy,
    /// Pods on their way out that had disks of the node.
    with_disks: Arc<Mutex<HashSet<PodUid>>>,
    iscsi: Initiator,
    fc: FibreChannel,
    flex: FlexDrivers,
}

impl HostPodVolumes {
    /// `root` is such as `/var/lib/kubelet`; the paths of plans for pod-owned volumes lie below it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            clock: Arc::new(SystemClock),
            turns: Turns::default(),
            mount_program: "mount".into(),
            local_disks: Busy::default(),
            with_disks: Arc::default(),
            iscsi: Initiator::default(),
            fc: FibreChannel::default(),
            flex: FlexDrivers::new(PathBuf::from(DRIVERS), None),
        }
    }

    /// With FlexVolume drivers in a folder. `attaches_as` is the node's name where no controller attaches volumes.
    #[must_use]
    pub fn with_drivers(mut self, folder: impl Into<PathBuf>, attaches_as: Option<String>) -> Self {
        self.flex = FlexDrivers::new(folder.into(), attaches_as);
        self
    }

    fn with_disks(&self) -> MutexGuard<'_, HashSet<PodUid>> {
        self.with_disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_up_now(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let medium = match &volume.plan {
            VolumePlan::EmptyDir { .. } => Medium::Disk,
            VolumePlan::MemoryDir { size_limit, .. } => Medium::Memory { size_limit: *size_limit },
            VolumePlan::HugePagesDir { page_size, .. } => Medium::HugePages { page_size: *page_size },
            VolumePlan::Files { path, storage, files, mount_points } => {
                let content = Content { files, mount_points, storage: *storage };
                let place = self.volume(uid, path)?;
                return Ok(self.set_up_files(&place, &content, volume.fs_group, progress)?);
            }
            VolumePlan::HostPath { path, kind, .. } => return host_path::set_up(path, *kind),
            VolumePlan::Image { .. } => return Ok(()),
            VolumePlan::Nfs { path, source, read_only, options } => {
                let read_only: &[&str] = if *read_only { &["ro"] } else { &[] };
                let options: Vec<&str> =
                    read_only.iter().copied().chain(options.iter().map(String::as_str)).collect();
                return nfs::set_up(&self.volume(uid, path)?, source, &options, &self.mount_program);
            }
            VolumePlan::Iscsi(_) | VolumePlan::Fc(_) | VolumePlan::Flex(_) => {
                return self.set_up_served(uid, volume, progress);
            }
            VolumePlan::Local { path, source, read_only, options } => {
                let program = self.mount_program.as_os_str();
                let binding = local::Binding {
                    source,
                    read_only: *read_only,
                    options,
                    program,
                    busy: &self.local_disks,
                };
                return local::set_up(&self.volume(uid, path)?, &binding, |folder| {
                    own(folder, volume.fs_group, Access::ReadWrite, progress)
                });
            }
            VolumePlan::Device { path, source, .. } => {
                return local::link_device(&make_pod(&self.root, uid)?, path, source);
            }
            VolumePlan::Csi(volume) => {
                return Err(VolumeError::Refused(format!(
                    "driver name {} not found in the list of registered CSI drivers",
                    volume.driver
                )));
            }
        };
        let place = self.volume(uid, volume.plan.host_path().unwrap_or(Path::new("")))?;
        empty_dir::set_up(&place, &place.name, medium, |folder| {
            own(folder, volume.fs_group, Access::ReadWrite, progress)
        })?;
        Ok(())
    }

    /// Sets up a disk of another machine, or a volume of a FlexVolume driver.
    fn set_up_served(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let give = |folder: &Folder| own(folder, volume.fs_group, Access::ReadWrite, progress);
        let root = self.root.as_path();
        if let VolumePlan::Iscsi(disk) = &volume.plan {
            return match disk.use_as {
                DiskUse::Device => self.iscsi.set_up_device(root, uid, disk),
                DiskUse::Files { .. } => {
                    let place = self.volume(uid, &disk.path)?;
                    self.iscsi.set_up(root, &place, disk, &volume.label, give)
                }
            };
        }
        if let VolumePlan::Fc(disk) = &volume.plan {
            return match disk.use_as {
                DiskUse::Device => self.fc.set_up_device(root, uid, disk),
                DiskUse::Files { .. } => {
                    let place = self.volume(uid, &disk.path)?;
                    self.fc.set_up(root, &place, disk, &volume.label, give)
                }
            };
        }
        let VolumePlan::Flex(driven) = &volume.plan else { return Ok(()) };
        self.flex.set_up(root, &self.volume(uid, &driven.path)?, driven, volume.fs_group, give)
    }

    fn set_up_files(
        &self,
        volume: &Volume,
        content: &Content<'_>,
        group: Option<FsGroup>,
        progress: &Progress,
    ) -> Result<(), FileError> {
        let medium = match content.storage {
            FileStorage::Disk => Medium::Disk,
            FileStorage::Memory { size_limit } => Medium::Memory { size_limit },
        };
        let folder = empty_dir::set_up(volume, &empty_dir::wrapped(&volume.name), medium, |folder| {
            own(folder, group, Access::ReadWrite, progress)
        })?;
        for point in content.mount_points {
            // A folder of the files comes with them, behind a symlink of our own.
            let comes_with_files = content.files.iter().any(|file| file.path.starts_with(point));
            if !comes_with_files && !folder.leads_to_folder(point)? {
                folder.make_below(point, MOUNT_POINTS)?;
            }
        }
        files::write(&folder, content.files, self.clock.now(), || own(&folder, group, Access::Read, progress))
    }

    fn volume(&self, uid: &PodUid, path: &Path) -> Result<Volume, FileError> {
        let pod = make_pod(&self.root, uid)?;
        let relative = path.strip_prefix(pod.path()).ok();
        let place = relative.and_then(|relative| relative.parent().zip(relative.file_name()));
        match place {
            Some((parent, name)) if parent.starts_with("volumes") => {
                let (name, relative) = (name.to_os_string(), parent.join(name));
                let parent = pod.make_below(parent, PRIVATE)?;
                Ok(Volume { pod, parent, name, relative })
            }
            Some(_) | None => Err(refused("not below the volumes of the pod")).on_path("set up volume", path),
        }
    }

    /// Does work on one pod's volumes on a thread that may hang, for as long as it moves on.
    async fn work<T: Send + 'static>(
        &self,
        uid: &PodUid,
        progress: &Progress,
        work: impl FnOnce(&Self) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        // Who waits for a turn needs no thread meanwhile.
        let Some(turn) = self.turns.take(uid, PATIENCE).await else { return Err(VolumeError::InProgress) };
        let volumes = self.clone();
        let done = apart(move || {
            let _turn = turn;
            work(&volumes)
        });
        tokio::pin!(done);
        loop {
            let before = progress.files();
            match tokio::time::timeout(DEADLINE, &mut done).await {
                Ok(result) => return result.on_path("work on volumes below", &self.root)?,
                Err(_) if progress.files() > before => {}
                Err(_) => return Err(VolumeError::TimedOut(DEADLINE)),
            }
        }
    }
}

#[async_trait]
impl PodVolumes for HostPodVolumes {
    async fn set_up(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let (owner, volume, counted) = (uid.clone(), volume.clone(), progress.clone());
        self.work(uid, progress, move |volumes| volumes.set_up_now(&owner, &volume, &counted)).await
    }

    async fn is_there(&self, volume: &PlannedVolume) -> Result<bool, VolumeError> {
        let Some(path) = volume.plan.host_path().map(Path::to_path_buf) else { return Ok(false) };
        if volume.plan.is_device() {
            return Ok(device_place(&path).is_some());
        }
        let found = blocking(&self.root, move || {
            // A volume of nobody's making has no folder.
            let Ok(path) = path.canonicalize() else { return Ok(false) };
            Ok(mounted_at(&table()?, &path).is_some())
        });
        Ok(found.await?)
    }

    async fn mounted_label(
        &self,
        _: &PodUid,
        volume: &PlannedVolume,
    ) -> Result<Option<VolumeLabel>, VolumeError> {
        let Some(path) = volume.plan.host_path().map(Path::to_path_buf) else { return Ok(None) };
        let found = blocking(&self.root, move || {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
            // The disk itself is not touched: it may hang. A volume of nobody's making has no folder.
            let Ok(parent) = parent.canonicalize() else { return Ok(None) };
            let table = table()?;
            let mount = mounted_at(&table, &parent.join(name));
            Ok(mount.map(|mount| VolumeLabel::from(mount.label().map(str::to_owned))))
        });
        Ok(found.await?)
    }

    async fn grow(&self, uid: &PodUid, volume: &PlannedVolume, sizes: (i64, i64)) -> Result<(), VolumeError> {
        let plan = volume.plan.clone();
        let grow = move |volumes: &Self| {
            if let VolumePlan::Local { path, source, .. } = &plan {
                return local::grow(&source.path, path);
            }
            if let VolumePlan::Flex(driven) = &plan { volumes.flex.grow(driven, sizes) } else { Ok(()) }
        };
        self.work(uid, &Progress::default(), grow).await
    }

    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> Result<PathBuf, VolumeError> {
        let (owner, part) = (uid.clone(), part.clone());
        let bind = move |volumes: &Self| Ok(sub_path::bind(&make_pod(&volumes.root, &owner)?, &part)?);
        self.work(uid, &Progress::default(), bind).await
    }

    async fn reconcile_mounts(&self) -> Result<MountReport, VolumeError> {
        let root = self.root.clone();
        Ok(blocking(&self.root, move || reconcile::reconcile(&root)).await?)
    }

    async fn tear_down(&self, uid: &PodUid) -> Result<(), VolumeError> {
        let owner = uid.clone();
        let tear_down = move |volumes: &Self| {
            if let Some(pod) = existing_pod(&volumes.root, &owner)? {
                if has_disks(&pod)? {
                    volumes.with_disks().insert(owner.clone());
                }
                tear_down::tear_down(&pod)?;
                volumes.flex.tear_down(&pod)?;
            }
            let swept = node_disk::sweep(&volumes.root, &volumes.local_disks).map_err(VolumeError::from);
            let swept = volumes.iscsi.sweep(&volumes.root).and(swept);
            let swept = volumes.fc.sweep(&volumes.root).and(swept);
            let swept = volumes.flex.sweep(&volumes.root).and(swept);
            match swept {
                // Whoever had a disk is not over before the node has let go of it; others have nothing to do with it.
                Err(error) if !volumes.with_disks().contains(&owner) => {
                    tracing::warn!(error = %error.text(), "a disk that no pod uses stays with the node");
                    Ok(())
                }
                Ok(()) => {
                    volumes.with_disks().remove(&owner);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        self.work(uid, &Progress::default(), tear_down).await
    }
}

/// Whether a pod has volumes that lie on disks which the node has for it.
fn has_disks(pod: &Folder) -> Result<bool, FileError> {
    if pod.existing("volumeDevices")?.is_some() {
        return Ok(true);
    }
    let Some(volumes) = pod.existing("volumes")? else { return Ok(false) };
    Ok(volumes.folder_names()?.iter().any(|name| !WITHOUT_DISKS.iter().any(|plugin| name == plugin)))
}

/// What a volume of files holds.
struct Content<'a> {
    files: &'a [ProjectedFile],
    mount_points: &'a [PathBuf],
    storage: FileStorage,
}

/// Where one volume of a pod lies.
struct Volume {
    pod: Folder,
    parent: Folder,
    name: OsString,
    relative: PathBuf,
}

impl Volume {
    /// Writes down that something is about to be mounted here.
    fn note_mount(&self, kind: &str) -> Result<(), FileError> {
        Journal::of(&self.pod).note(&self.relative, kind)
    }
}

/// The device that a link of a pod leads to, if it is there.
fn device_place(link: &Path) -> Option<PathBuf> {
    let found = std::fs::read_link(link).ok()?;
    found.exists().then_some(found)
}

/// Removes a folder below the root folder that holds nothing.
fn remove_folder(root: &Path, relative: &str) -> Result<(), FileError> {
    let path = root.join(relative);
    match rustix::fs::unlinkat(rustix::fs::CWD, &path, rustix::fs::AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(error).on_path("remove folder", path),
    }
}

fn own(
    folder: &Folder,
    group: Option<FsGroup>,
    access: Access,
    progress: &Progress,
) -> Result<(), FileError> {
    group.map_or(Ok(()), |group| give_to_group(folder, group, access, progress))
}
