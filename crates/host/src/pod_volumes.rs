//! Volumes of pods on disk and in memory.

mod empty_dir;
mod files;
mod host_path;
mod ownership;
mod tear_down;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::{FileStorage, FsGroup, PodUid, ProjectedFile};
use ports::clock::{Clock, SystemClock};
use ports::pod_folders::FileError;
use ports::pod_volumes::{PlannedVolume, PodVolumes, Progress, VolumeError, VolumePlan};

use crate::failure::{OnPath, blocking, refused};
use crate::folder::Folder;
use crate::pod_folders::{PRIVATE, existing_pod, make_pod};
use empty_dir::Medium;
use ownership::{Access, give_to_group};

const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
/// Folders that other volumes are mounted on.
const MOUNT_POINTS: u32 = 0o755;

/// [`PodVolumes`] below the agent's root folder.
#[derive(Clone)]
pub struct HostPodVolumes {
    root: PathBuf,
    clock: Arc<dyn Clock>,
}

impl HostPodVolumes {
    /// `root` is such as `/var/lib/kubelet`; the paths of plans for pod-owned volumes lie below it.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), clock: Arc::new(SystemClock) }
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
            VolumePlan::HostPath { path, kind } => return host_path::set_up(path, *kind),
        };
        let place = self.volume(uid, volume.plan.host_path())?;
        empty_dir::set_up(&place, &place.name, medium, |folder| {
            own(folder, volume.fs_group, Access::ReadWrite, progress)
        })?;
        Ok(())
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
                let parent = pod.make_below(parent, PRIVATE)?;
                Ok(Volume { pod, parent, name: name.to_os_string() })
            }
            Some(_) | None => Err(refused("not below the volumes of the pod")).on_path("set up volume", path),
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
        let (volumes, uid, volume, progress) = (self.clone(), uid.clone(), volume.clone(), progress.clone());
        blocking(&self.root, move || Ok(volumes.set_up_now(&uid, &volume, &progress))).await?
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
}

impl Volume {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the journal of mounts comes next")]
    fn note_mount(&self, _what: &str) -> Result<(), FileError> {
        Ok(())
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
