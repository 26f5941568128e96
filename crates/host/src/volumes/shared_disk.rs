//! Disks shared by several pods: one mount for the node, or for a raw device one folder of links per disk that records
//! which pods use it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{DiskUse, PodUid, VolumeLabel, same_label};
use parking_lot::{Mutex, MutexGuard};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{VolumeError, VolumeStep};
use rustix::mount::MountFlags;

use super::VolumeFolder;
use super::disk::{self, DiskMount};
use super::local::link_to;
use crate::errors::OnPath;
use crate::files::folder::Folder;
use crate::files::tree;
use crate::mount_table::{self, label_in, mounted_at, table};
use crate::pods::pod_folders::PRIVATE_MODE;

/// Locks of disks or targets by name.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskLocks(Arc<Mutex<BTreeSet<String>>>);

/// Unlocks when dropped.
pub(super) struct DiskLock<'a> {
    locks: &'a DiskLocks,
    name: String,
}

impl DiskLocks {
    /// `None` if it is locked.
    pub(super) fn try_lock(&self, name: &str) -> Option<DiskLock<'_>> {
        self.locked().insert(name.to_owned()).then(|| DiskLock { locks: self, name: name.to_owned() })
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock()
    }
}

impl Drop for DiskLock<'_> {
    fn drop(&mut self) {
        self.locks.locked().remove(&self.name);
    }
}

pub(super) fn pod_mount_point(volume: &VolumeFolder) -> Result<PathBuf, FileError> {
    Ok(volume.parent.real_path()?.join(&volume.name))
}

/// Whether the volume is mounted in its pod.
pub(super) fn is_bound(volume: &VolumeFolder) -> Result<bool, FileError> {
    Ok(mounted_at(&table()?, &pod_mount_point(volume)?).is_some())
}

/// Bind-mounts a disk that is mounted for the node into a pod.
pub(super) fn bind(volume: &VolumeFolder, mounted: &Path) -> Result<(), VolumeError> {
    let Some(source) = Folder::open(mounted)? else {
        return Err(VolumeError::Refused(format!("{} was removed", mounted.display())));
    };
    Ok(bind_folder(volume, &source)?)
}

/// Bind-mounts an open folder into a pod.
pub(super) fn bind_folder(volume: &VolumeFolder, source: &Folder) -> Result<(), FileError> {
    volume.parent.make_below(&volume.name, PRIVATE_MODE)?;
    volume.record_mount("bind")?;
    let mount_point = volume.parent.magic_path().join(&volume.name);
    rustix::mount::mount_bind(source.magic_path(), mount_point).on_path("bind to", pod_mount_point(volume)?)
}

/// Remounts a pod's volume read-only. Called even if it is mounted, because the agent may have been killed in between.
pub(super) fn make_read_only(volume: &VolumeFolder) -> Result<(), VolumeError> {
    let mount_point = volume.parent.magic_path().join(&volume.name);
    let remounted = rustix::mount::mount_remount(mount_point, MountFlags::BIND | MountFlags::RDONLY, c"");
    Ok(remounted.on_path("mount read-only", pod_mount_point(volume)?)?)
}

/// The folders of one kind of disk, below the root folder and in pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskFolders {
    /// Mount points of disks.
    pub(super) mounts: &'static str,
    /// A folder of links per raw device.
    pub(super) devices: &'static str,
    /// Name of the plugin folder in pods, for example `kubernetes.io~iscsi`.
    pub(super) plugin: &'static str,
}

impl DiskFolders {
    /// Unmounts or unlinks a disk below `base`, which is `mounts` or `devices`, unless a pod uses it.
    pub(super) fn release_unused(
        &self,
        root: &Path,
        base: &str,
        disks: &Folder,
        name: &OsStr,
    ) -> Result<DiskState, FileError> {
        if base == self.mounts {
            return unmount_unused(root, disks, name);
        }
        disks.existing(name)?.map_or(Ok(DiskState::Unused), |map| unlink_unused(root, &map, self.plugin))
    }
}

pub(super) fn disk_folder(root: &Path, relative: &Path) -> Result<Folder, FileError> {
    Folder::make(root, PRIVATE_MODE)?.make_below(relative, PRIVATE_MODE)
}

/// A disk that is mounted once for the node.
pub(super) struct NodeDisk<'a> {
    pub(super) root: &'a Path,
    /// Mount point below `root`.
    pub(super) relative: PathBuf,
    pub(super) use_as: &'a DiskUse,
    pub(super) read_only: bool,
    pub(super) label: &'a VolumeLabel,
    /// Name of the attached volume, for error messages.
    pub(super) attachment: &'a str,
    pub(super) mount_program: &'a OsStr,
}

impl NodeDisk<'_> {
    /// Mounts the disk, unless it is mounted, and returns its mount point. `attach` returns the device, given the
    /// folder of the disk. `own` sets the pod's group when the disk is mounted for the first time.
    pub(super) fn mount(
        &self,
        attach: impl FnOnce(&Folder) -> Result<PathBuf, VolumeError>,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<PathBuf, VolumeError> {
        let DiskUse::Files { fs_type, options } = self.use_as else {
            return Err(VolumeError::Refused("a device is not mounted".to_owned()));
        };
        let desired = DesiredMount { options, label: self.label };
        let is_mounted = is_mounted(self.root, &self.relative, desired, self.attachment)?;
        let folder = disk_folder(self.root, &self.relative)?;
        let target = folder.real_path()?;
        if is_mounted {
            return Ok(target);
        }
        let mounted = attach(&folder).and_then(|device| {
            let options = &desired.mount_options();
            let disk = DiskMount { device: &device, fs_type, read_only: self.read_only, options };
            disk::mount(&disk, &target, self.mount_program)
                .map_err(|error| disk::mount_error(&error, error.text()))
        });
        if let Err(error) = mounted {
            // Keep the disk attached: the next attempt follows soon.
            super::remove_if_empty(&self.root.join(&self.relative))?;
            return Err(error);
        }
        let Some(mounted) = Folder::open(&target)? else {
            return Err(VolumeError::Refused(format!("{} was removed", target.display())));
        };
        own(&mounted)?;
        Ok(target)
    }
}

/// How a disk shall be mounted for the node.
#[derive(Clone, Copy, Debug)]
struct DesiredMount<'a> {
    /// Options of the volume.
    options: &'a [String],
    /// Label of the pod's containers.
    label: &'a VolumeLabel,
}

impl DesiredMount<'_> {
    /// The label in the options, which takes precedence over the pod's.
    fn explicit_label(&self) -> Option<&str> {
        self.options.iter().find_map(|option| label_in(option))
    }

    /// Whether a mount with this label can be used.
    fn is_met_by(&self, mounted: Option<&str>) -> bool {
        match self.label {
            VolumeLabel::None | VolumeLabel::Requested(_) => true,
            VolumeLabel::OfFiles | VolumeLabel::OfMount(_) => {
                let desired = self.explicit_label().or(self.label.of_mount());
                same_label(desired.unwrap_or_default(), mounted.unwrap_or_default())
            }
        }
    }

    /// All mount options, including the label.
    fn mount_options(&self) -> Vec<String> {
        let label = self.label.of_mount().filter(|_| self.explicit_label().is_none());
        let context = label.map(|label| format!("context=\"{label}\""));
        context.into_iter().chain(self.options.iter().cloned()).collect()
    }
}

/// Whether a disk is mounted at `relative` below `root` as desired. Unmounts a disk with another label, unless a pod
/// uses it. The caller must not hold the mount open.
fn is_mounted(
    root: &Path,
    relative: &Path,
    desired: DesiredMount<'_>,
    name: &str,
) -> Result<bool, VolumeError> {
    let target = root.join(relative);
    let (Some(parent), Some(file)) = (target.parent(), target.file_name()) else { return Ok(false) };
    let Some(disks) = Folder::open(parent)? else { return Ok(false) };
    let table = table()?;
    let Some(mount) = mounted_at(&table, &disks.real_path()?.join(file)) else { return Ok(false) };
    if desired.is_met_by(mount.label()) {
        return Ok(true);
    }
    match unmount_unused(root, &disks, file)? {
        DiskState::InUse => Err(VolumeError::OtherLabel(name.to_owned())),
        DiskState::Unused => Ok(false),
    }
}

/// Unmounts a disk that is mounted for the node, unless a pod uses it.
pub(super) fn unmount_unused(root: &Path, disks: &Folder, name: &OsStr) -> Result<DiskState, FileError> {
    let target = disks.real_path()?.join(name);
    let pods = root.canonicalize().on_path("resolve folder", root)?.join("pods");
    let table = table()?;
    if let Some(mount) = mounted_at(&table, &target) {
        let pod_mounts = mount_table::at_or_below(&table, &pods);
        if pod_mounts.iter().any(|other| other.device == mount.device) {
            return Ok(DiskState::InUse);
        }
        super::tear_down::unmount(disks, Path::new(name))?;
    }
    Ok(DiskState::Unused)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskState {
    InUse,
    Unused,
}

/// Links a device for a pod: first in `map`, the folder that records its users, then where the runtime finds it.
pub(super) fn link(
    map: &Folder,
    uid: &PodUid,
    pod: &Folder,
    link: &Path,
    device: &Path,
) -> Result<(), FileError> {
    let name = OsStr::new(uid.as_str());
    if link_target(map, name).as_deref() != Some(device) {
        tree::remove(map, name)?;
        rustix::fs::symlinkat(device, map, name).on_path("link device", map.path().join(name))?;
    }
    link_to(pod, link, device)
}

/// Removes the links of pods that do not use the device any more; `plugin` is for example `kubernetes.io~iscsi`.
fn unlink_unused(root: &Path, map: &Folder, plugin: &str) -> Result<DiskState, FileError> {
    let mut found = DiskState::Unused;
    for name in map.names()? {
        let Some(device) = link_target(map, &name) else { continue };
        let devices = root.join("pods").join(&name).join("volumeDevices").join(plugin);
        let is_in_use = match Folder::open(&devices)? {
            Some(links) => {
                links.names()?.iter().any(|name| link_target(&links, name).as_deref() == Some(&device))
            }
            None => false,
        };
        if is_in_use {
            found = DiskState::InUse;
        } else {
            tree::remove(map, &name)?;
        }
    }
    Ok(found)
}

/// The target of a symlink; `None` for anything else.
fn link_target(folder: &Folder, name: &OsStr) -> Option<PathBuf> {
    folder.link_target(name).ok()
}

pub(super) fn step_failed(step: VolumeStep, reason: String) -> VolumeError {
    VolumeError::Step { step, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_in_options_takes_precedence_over_pod_label() {
        let of_pod = VolumeLabel::OfMount("u:r:t:s0:c26,c5".to_owned());
        let (none, of_files) = (VolumeLabel::None, VolumeLabel::OfFiles);
        let (own, explicit) = ("context=\"u:r:t:s0:c26,c5\"", "context=\"u:r:x:s0:c1,c2\"");
        let together = format!("noexec,{explicit}");
        // The last value is the label that a mount must have; `None` if any label is accepted.
        for (options, label, expected, mounted) in [
            (vec!["noatime"], &of_pod, vec![own, "noatime"], Some("u:r:t:s0:c5,c26")),
            (vec!["noatime"], &of_files, vec!["noatime"], Some("")),
            (vec!["noatime"], &none, vec!["noatime"], None),
            (vec![explicit], &of_pod, vec![explicit], Some("u:r:x:s0:c1,c2")),
            (vec![explicit], &of_files, vec![explicit], Some("u:r:x:s0:c1,c2")),
            (vec![explicit], &none, vec![explicit], None),
            (vec![together.as_str()], &of_pod, vec![together.as_str()], Some("u:r:x:s0:c1,c2")),
            // Other context options do not set the label of files.
            (vec!["rootcontext=u:r:x:s0"], &of_files, vec!["rootcontext=u:r:x:s0"], Some("")),
        ] {
            let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
            let desired = DesiredMount { options: &options, label };
            assert_eq!(desired.mount_options(), expected, "{desired:?}");
            for found in ["", "u:r:t:s0:c5,c26", "u:r:x:s0:c1,c2"] {
                let is_met = desired.is_met_by(Some(found).filter(|label| !label.is_empty()));
                assert_eq!(is_met, mounted.is_none_or(|mounted| mounted == found), "{desired:?} {found:?}");
            }
        }
    }
}
