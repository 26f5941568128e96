//! Sets up and tears down the volumes of pods.

mod csi_folders;
mod disk;
mod empty_dir;
mod fc;
mod files;
mod flex;
mod host_path;
mod iscsi;
mod journal;
mod local;
mod mount_program;
mod nfs;
mod ownership;
mod reconcile;
mod scsi_disks;
mod shared_disk;
mod sub_path;
mod tear_down;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{DiskUse, FileStorage, FsGroup, PodUid, ProjectedFile, VolumeLabel, VolumeSecret};
use parking_lot::Mutex;
use ports::clock::{Clock, SystemClock};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{
    MountReport, PlannedVolume, PodVolumes, Progress, SubPath, VolumeError, VolumePlan,
};

use rustix::io::Errno;
use timing::KeyedLock;

use crate::errors::{OnPath, blocking, invalid_input};
use crate::files::folder::Folder;
use crate::hanging_io::run_may_hang;
use crate::mount_table::{mounted_at, table};
use crate::pods::pod_folders::{PRIVATE_MODE, existing_pod, make_pod};
pub use csi_folders::HostCsiFolders;
use empty_dir::Medium;
use fc::FibreChannel;
use flex::FlexDrivers;
use iscsi::Initiator;
use journal::Journal;
use local::node_disk;
use ownership::{Access, set_group};
use shared_disk::DiskLocks;

/// Default folder of FlexVolume drivers.
const DEFAULT_FLEX_DRIVERS: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// Plugins whose volumes use no disk that is attached to the node.
const DISKLESS_PLUGINS: [&str; 7] = [
    EMPTY_DIR,
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~projected",
    "kubernetes.io~downward-api",
    "kubernetes.io~nfs",
    "kubernetes.io~csi",
];
/// Mode of folders on which other volumes are mounted.
const MOUNT_POINT_MODE: u32 = 0o755;

/// How long an operation may take without progress, like upstream's wait for mounts in one sync.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(123);
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// [`PodVolumes`] below the agent's root folder.
#[derive(Clone)]
pub struct HostPodVolumes {
    root: PathBuf,
    clock: Arc<dyn Clock>,
    pod_locks: KeyedLock<PodUid>,
    mount_program: OsString,
    /// Local disks that are being set up for a pod.
    local_disks: DiskLocks,
    /// Terminating pods with volumes on disks that are attached to the node.
    pods_with_disks: Arc<Mutex<HashSet<PodUid>>>,
    iscsi: Initiator,
    fc: FibreChannel,
    flex: FlexDrivers,
}

impl HostPodVolumes {
    /// `root` is the kubelet's root folder, such as `/var/lib/kubelet`. The paths of pod-owned volumes lie below it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            clock: Arc::new(SystemClock),
            pod_locks: KeyedLock::default(),
            mount_program: "mount".into(),
            local_disks: DiskLocks::default(),
            pods_with_disks: Arc::default(),
            iscsi: Initiator::default(),
            fc: FibreChannel::default(),
            flex: FlexDrivers::new(PathBuf::from(DEFAULT_FLEX_DRIVERS), None),
        }
    }

    /// Uses the FlexVolume drivers in `folder`. `attach_as` is the node's name if the agent attaches volumes itself.
    #[must_use]
    pub fn with_flex_drivers(mut self, folder: impl Into<PathBuf>, attach_as: Option<String>) -> Self {
        self.flex = FlexDrivers::new(folder.into(), attach_as);
        self
    }

    fn set_up_now(
        &self,
        uid: &PodUid,
        volume: &PlannedVolume,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let root = self.root.as_path();
        let own = |folder: &Folder| set_optional_group(folder, volume.fs_group, Access::ReadWrite, progress);
        let medium = match &volume.plan {
            VolumePlan::EmptyDir { .. } => Medium::Disk,
            VolumePlan::MemoryDir { size_limit, .. } => Medium::Memory { size_limit: *size_limit },
            VolumePlan::HugePagesDir { page_size, .. } => Medium::HugePages { page_size: *page_size },
            VolumePlan::Files { path, storage, files, mount_points } => {
                let content = FileContent { files, mount_points, storage: *storage };
                let volume_folder = self.volume_folder(uid, path)?;
                return Ok(self.set_up_files(&volume_folder, &content, volume.fs_group, progress)?);
            }
            VolumePlan::HostPath { path, kind, .. } => return host_path::set_up(path, *kind),
            VolumePlan::Image { .. } => return Ok(()),
            VolumePlan::Nfs { path, source, read_only, options } => {
                let read_only: &[&str] = if *read_only { &["ro"] } else { &[] };
                let options: Vec<&str> =
                    read_only.iter().copied().chain(options.iter().map(String::as_str)).collect();
                return nfs::set_up(&self.volume_folder(uid, path)?, source, &options, &self.mount_program);
            }
            VolumePlan::Iscsi(disk) if disk.use_as == DiskUse::Device => {
                return self.iscsi.set_up_device(root, uid, disk);
            }
            VolumePlan::Iscsi(disk) => {
                return self.iscsi.set_up(
                    root,
                    &self.volume_folder(uid, &disk.path)?,
                    disk,
                    &volume.label,
                    own,
                );
            }
            VolumePlan::Fc(disk) if disk.use_as == DiskUse::Device => {
                return self.fc.set_up_device(root, uid, disk);
            }
            VolumePlan::Fc(disk) => {
                return self.fc.set_up(root, &self.volume_folder(uid, &disk.path)?, disk, &volume.label, own);
            }
            VolumePlan::Flex(flex) => {
                let volume_folder = self.volume_folder(uid, &flex.path)?;
                return self.flex.set_up(root, &volume_folder, flex, volume.fs_group, own);
            }
            VolumePlan::Local { path, source, read_only, options } => {
                let program = self.mount_program.as_os_str();
                let binding = local::Binding {
                    source,
                    read_only: *read_only,
                    options,
                    program,
                    locks: &self.local_disks,
                };
                return local::set_up(&self.volume_folder(uid, path)?, &binding, own);
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
        let volume_folder = self.volume_folder(uid, volume.plan.host_path().unwrap_or(Path::new("")))?;
        empty_dir::set_up(&volume_folder, &volume_folder.name, medium, own)?;
        Ok(())
    }

    fn set_up_files(
        &self,
        volume: &VolumeFolder,
        content: &FileContent<'_>,
        group: Option<FsGroup>,
        progress: &Progress,
    ) -> Result<(), FileError> {
        let medium = match content.storage {
            FileStorage::Disk => Medium::Disk,
            FileStorage::Memory { size_limit } => Medium::Memory { size_limit },
        };
        let folder = empty_dir::set_up(volume, &empty_dir::wrapped_marker(&volume.name), medium, |folder| {
            set_optional_group(folder, group, Access::ReadWrite, progress)
        })?;
        for point in content.mount_points {
            // Folders of the files are created together with them, behind a symlink.
            let is_part_of_files = content.files.iter().any(|file| file.path.starts_with(point));
            if !is_part_of_files && !folder.resolves_to_folder(point)? {
                folder.make_below(point, MOUNT_POINT_MODE)?;
            }
        }
        files::write(&folder, content.files, self.clock.now(), || {
            set_optional_group(&folder, group, Access::Read, progress)
        })
    }

    fn volume_folder(&self, uid: &PodUid, path: &Path) -> Result<VolumeFolder, FileError> {
        let pod = make_pod(&self.root, uid)?;
        let relative = path.strip_prefix(pod.path()).ok();
        let parent_and_name = relative.and_then(|relative| relative.parent().zip(relative.file_name()));
        match parent_and_name {
            Some((parent, name)) if parent.starts_with("volumes") => {
                let (name, relative) = (name.to_os_string(), parent.join(name));
                let parent = pod.make_below(parent, PRIVATE_MODE)?;
                Ok(VolumeFolder { pod, parent, name, relative })
            }
            Some(_) | None => {
                Err(invalid_input("not below the volumes folder of the pod")).on_path("set up volume", path)
            }
        }
    }

    /// Runs work on the volumes of a pod on a thread that may hang. Times out when `progress` stops.
    async fn run_for_pod<T: Send + 'static>(
        &self,
        uid: &PodUid,
        progress: &Progress,
        work: impl FnOnce(&Self) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        // Wait for the lock before a thread is taken.
        let Some(guard) = self.pod_locks.acquire(uid, LOCK_TIMEOUT).await else {
            return Err(VolumeError::InProgress);
        };
        let volumes = self.clone();
        let done = run_may_hang(move || {
            let _guard = guard;
            work(&volumes)
        });
        tokio::pin!(done);
        loop {
            let before = progress.files();
            match tokio::time::timeout(OPERATION_TIMEOUT, &mut done).await {
                Ok(result) => return result.on_path("work on volumes below", &self.root)?,
                Err(_) if progress.files() > before => {}
                Err(_) => return Err(VolumeError::TimedOut(OPERATION_TIMEOUT)),
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
        self.run_for_pod(uid, progress, move |volumes| volumes.set_up_now(&owner, &volume, &counted)).await
    }

    async fn is_set_up(&self, volume: &PlannedVolume) -> Result<bool, VolumeError> {
        let Some(path) = volume.plan.host_path().map(Path::to_path_buf) else { return Ok(false) };
        if volume.plan.is_device() {
            return Ok(linked_device(&path).is_some());
        }
        let found = blocking(&self.root, move || {
            // A volume that was never set up has no folder.
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
            // Do not access the disk, which may hang. A volume that was never set up has no folder.
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
            if let VolumePlan::Flex(flex) = &plan { volumes.flex.grow(flex, sizes) } else { Ok(()) }
        };
        self.run_for_pod(uid, &Progress::default(), grow).await
    }

    async fn bind_sub_path(&self, uid: &PodUid, part: &SubPath) -> Result<PathBuf, VolumeError> {
        let (owner, part) = (uid.clone(), part.clone());
        let bind = move |volumes: &Self| Ok(sub_path::bind(&make_pod(&volumes.root, &owner)?, &part)?);
        self.run_for_pod(uid, &Progress::default(), bind).await
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
                    volumes.pods_with_disks.lock().insert(owner.clone());
                }
                tear_down::tear_down(&pod)?;
                volumes.flex.tear_down(&pod)?;
            }
            let swept = node_disk::sweep(&volumes.root, &volumes.local_disks).map_err(VolumeError::from);
            let swept = volumes.iscsi.sweep(&volumes.root).and(swept);
            let swept = volumes.fc.sweep(&volumes.root).and(swept);
            let swept = volumes.flex.sweep(&volumes.root).and(swept);
            match swept {
                // Only a pod that had such a disk waits until the node has released it.
                Err(error) if !volumes.pods_with_disks.lock().contains(&owner) => {
                    tracing::warn!(error = %error.text(), "failed to detach a disk that no pod uses");
                    Ok(())
                }
                Ok(()) => {
                    volumes.pods_with_disks.lock().remove(&owner);
                    Ok(())
                }
                Err(error) => Err(error),
            }
        };
        self.run_for_pod(uid, &Progress::default(), tear_down).await
    }
}

/// Whether a pod has volumes on disks that are attached to the node.
fn has_disks(pod: &Folder) -> Result<bool, FileError> {
    if pod.existing("volumeDevices")?.is_some() {
        return Ok(true);
    }
    let Some(volumes) = pod.existing("volumes")? else { return Ok(false) };
    Ok(volumes.folder_names()?.iter().any(|name| !DISKLESS_PLUGINS.iter().any(|plugin| name == plugin)))
}

/// The content of a volume that the agent writes.
struct FileContent<'a> {
    files: &'a [ProjectedFile],
    mount_points: &'a [PathBuf],
    storage: FileStorage,
}

/// The location of one volume in its pod's folder.
struct VolumeFolder {
    pod: Folder,
    parent: Folder,
    name: OsString,
    relative: PathBuf,
}

impl VolumeFolder {
    /// Records in the journal that something is about to be mounted here.
    fn record_mount(&self, kind: &str) -> Result<(), FileError> {
        Journal::of(&self.pod).record(&self.relative, kind)
    }
}

/// The target of a pod's device link, if it exists.
fn linked_device(link: &Path) -> Option<PathBuf> {
    let found = std::fs::read_link(link).ok()?;
    found.exists().then_some(found)
}

/// The content of a volume's secret; empty if it needs none.
fn secret_content(secret: &VolumeSecret) -> Result<BTreeMap<String, String>, String> {
    match secret {
        VolumeSecret::Given(content) => Ok(content.clone()),
        VolumeSecret::NotNeeded => Ok(BTreeMap::new()),
        VolumeSecret::Missing(reason) => Err(reason.clone()),
        VolumeSecret::Requested(reference) => {
            Err(format!("couldn't get secret {}/{}", reference.namespace, reference.name))
        }
    }
}

/// Removes a folder if it is empty.
fn remove_if_empty(path: &Path) -> Result<(), FileError> {
    match rustix::fs::rmdir(path) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(error).on_path("remove folder", path),
    }
}

fn set_optional_group(
    folder: &Folder,
    group: Option<FsGroup>,
    access: Access,
    progress: &Progress,
) -> Result<(), FileError> {
    group.map_or(Ok(()), |group| set_group(folder, group, access, progress))
}
