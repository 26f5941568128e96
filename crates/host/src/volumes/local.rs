//! Local volumes: folders and block devices of this host that a PersistentVolume refers to.

pub(super) mod node_disk;

use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use model::LocalSource;
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::VolumeError;

use super::VolumeFolder;
use super::shared_disk::{DiskLock, DiskLocks, bind_folder, make_read_only};
use crate::errors::{OnPath, invalid_input};
use crate::files::folder::Folder;
use crate::helper_program::Arguments;
use crate::mount_table;
use crate::pods::pod_folders::PRIVATE_MODE;
use crate::volumes::mount_program;

const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// Source and options of a bind mount.
pub(super) struct Binding<'a> {
    pub(super) source: &'a LocalSource,
    pub(super) read_only: bool,
    pub(super) options: &'a [String],
    pub(super) program: &'a OsStr,
    /// Disks that are being set up for a pod.
    pub(super) locks: &'a DiskLocks,
}

/// Bind-mounts the source at the volume's folder. `own` sets the pod's group before a container can access it, unless
/// another pod has it mounted and has set its own group.
pub(super) fn set_up(
    volume: &VolumeFolder,
    binding: &Binding<'_>,
    own: impl FnOnce(&Folder) -> Result<(), FileError>,
) -> Result<(), VolumeError> {
    let target = volume.parent.real_path()?.join(&volume.name);
    let table = mount_table::table()?;
    if mount_table::mounted_at(&table, &target).is_none() {
        let (source, _lock) = source(volume, binding)?;
        let pod = volume.pod.real_path()?;
        let pod_mounts = mount_table::at_or_below(&table, pod.parent().unwrap_or(&pod));
        let shared = pod_mounts.iter().any(|mount| mount.mount_point.ends_with(&volume.relative));
        if !shared {
            own(&source)?;
        }
        bind_folder(volume, &source)?;
    }
    // Also if it was mounted before: the agent may have been killed in between.
    apply_options(volume, &target, binding)
}

/// The folder to bind. For a device, the lock is held until it is bound.
fn source<'a>(
    volume: &VolumeFolder,
    binding: &Binding<'a>,
) -> Result<(Folder, Option<DiskLock<'a>>), VolumeError> {
    let path = &binding.source.path;
    let kind = std::fs::metadata(path).map_err(|error| unusable(path, &error))?.file_type();
    if kind.is_block_device() {
        let (mounted, lock) = node_disk::attach(volume, binding)?;
        return Ok((mounted, Some(lock)));
    }
    if !kind.is_dir() {
        return Err(VolumeError::Refused("only directory and block device are supported".to_owned()));
    }
    let folder = Folder::open(path)?;
    Ok((folder.ok_or_else(|| unusable(path, &std::io::ErrorKind::NotFound.into()))?, None))
}

/// Grows the file system of a device. Does nothing for a folder.
pub(super) fn grow(source: &Path, mounted: &Path) -> Result<(), VolumeError> {
    let kind = std::fs::metadata(source).map_err(|error| unusable(source, &error))?.file_type();
    if kind.is_block_device() { crate::volumes::disk::grow(source, mounted) } else { Ok(()) }
}

/// Applies mount options, which a new bind mount ignores.
fn apply_options(volume: &VolumeFolder, target: &Path, binding: &Binding<'_>) -> Result<(), VolumeError> {
    if binding.options.is_empty() {
        return if binding.read_only { make_read_only(volume) } else { Ok(()) };
    }
    let mut options = vec!["remount", "bind"];
    options.extend(binding.read_only.then_some("ro"));
    options.extend(binding.options.iter().map(String::as_str));
    let arguments = Arguments::default().value("-o", options.join(",")).operands([target.into()]);
    let mounted = mount_program::run(binding.program, &arguments, HELPER_TIMEOUT);
    if mounted.is_err() {
        super::tear_down::unmount(&volume.pod, &volume.relative)?;
        volume.parent.remove_empty(&volume.name)?;
    }
    mounted
}

/// Links a block device in the pod's folder, where the runtime finds it.
pub(super) fn link_device(pod: &Folder, link: &Path, device: &Path) -> Result<(), VolumeError> {
    let found = std::fs::metadata(device).map_err(|error| unusable(device, &error))?;
    if !found.file_type().is_block_device() {
        return Err(VolumeError::Refused(format!("path {:?} is not a block device", device.display())));
    }
    Ok(link_to(pod, link, device)?)
}

/// Creates or replaces a link below `volumeDevices` of a pod.
pub(crate) fn link_to(pod: &Folder, link: &Path, device: &Path) -> Result<(), FileError> {
    let relative = link.strip_prefix(pod.path()).ok();
    let parent_and_name = relative.and_then(|relative| relative.parent().zip(relative.file_name()));
    let Some((parent, name)) = parent_and_name.filter(|(parent, _)| parent.starts_with("volumeDevices"))
    else {
        return Err(invalid_input("not below the devices folder of the pod")).on_path("link device", link);
    };
    let parent = pod.make_below(parent, PRIVATE_MODE)?;
    if parent.link_target(name).is_ok_and(|found| found == device) {
        return Ok(());
    }
    crate::files::tree::remove(&parent, name)?;
    rustix::fs::symlinkat(device, &parent, name).on_path("link device", link)
}

fn unusable(path: &Path, error: &std::io::Error) -> VolumeError {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            VolumeError::Refused(format!("path {:?} does not exist", path.display()))
        }
        _ => VolumeError::Refused(format!("stat {}: {error}", path.display())),
    }
}
