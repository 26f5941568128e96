//! What PersistentVolumes name on this host: folders and block devices.

pub(super) mod node_disk;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use model::LocalSource;
use ports::pod_folders::FileError;
use ports::pod_volumes::VolumeError;
use rustix::mount::MountFlags;

use super::Volume;
use super::shared_disk::{Busy, Turn};
use crate::failure::{OnPath, refused};
use crate::folder::Folder;
use crate::pod_folders::PRIVATE;
use crate::{mount_program, mount_table};

const HELPER_DEADLINE: Duration = Duration::from_secs(60);

/// How a folder is bound, or the file system of a device.
pub(super) struct Binding<'a> {
    pub(super) source: &'a LocalSource,
    pub(super) read_only: bool,
    pub(super) options: &'a [String],
    pub(super) program: &'a OsStr,
    /// Disks that are being given to pods.
    pub(super) busy: &'a Busy,
}

/// Binds what a volume names of the host at the volume's folder. `own` gives it to the pod's group before any container
/// sees it, unless another pod has it mounted: that one's group was first.
pub(super) fn set_up(
    volume: &Volume,
    binding: &Binding<'_>,
    own: impl FnOnce(&Folder) -> Result<(), FileError>,
) -> Result<(), VolumeError> {
    let target = volume.parent.real_path()?.join(&volume.name);
    let table = mount_table::table()?;
    if mount_table::mounted_at(&table, &target).is_none() {
        let (source, _turn) = source(volume, binding)?;
        let pod = volume.pod.real_path()?;
        let of_pods = mount_table::at_or_below(&table, pod.parent().unwrap_or(&pod));
        let shared = of_pods.iter().any(|mount| mount.mount_point.ends_with(&volume.relative));
        if !shared {
            own(&source)?;
        }
        volume.parent.make_below(&volume.name, PRIVATE)?;
        volume.note_mount("bind")?;
        let at = volume.parent.magic_path().join(&volume.name);
        rustix::mount::mount_bind(source.magic_path(), at).on_path("bind to", &target)?;
    }
    // Again if it is mounted already: an agent may have been killed in between.
    restrict(volume, &target, binding)
}

/// The folder to bind, and the right to that of a device until it is bound.
fn source<'a>(volume: &Volume, binding: &Binding<'a>) -> Result<(Folder, Option<Turn<'a>>), VolumeError> {
    let path = &binding.source.path;
    let kind = std::fs::metadata(path).map_err(|error| unusable(path, &error))?.file_type();
    if kind.is_block_device() {
        let (mounted, turn) = node_disk::attach(volume, binding)?;
        return Ok((mounted, Some(turn)));
    }
    if !kind.is_dir() {
        return Err(VolumeError::Refused("only directory and block device are supported".to_owned()));
    }
    let folder = Folder::open(path)?;
    Ok((folder.ok_or_else(|| unusable(path, &std::io::ErrorKind::NotFound.into()))?, None))
}

/// Lets the file system of a device follow it; a folder has none of its own.
pub(super) fn grow(source: &Path, mounted: &Path) -> Result<(), VolumeError> {
    let kind = std::fs::metadata(source).map_err(|error| unusable(source, &error))?.file_type();
    if kind.is_block_device() { crate::disk::grow(source, mounted) } else { Ok(()) }
}

/// Puts options in force that a bind mount does not begin with.
fn restrict(volume: &Volume, target: &Path, binding: &Binding<'_>) -> Result<(), VolumeError> {
    let at = volume.parent.magic_path().join(&volume.name);
    if binding.options.is_empty() {
        if binding.read_only {
            rustix::mount::mount_remount(&at, MountFlags::BIND | MountFlags::RDONLY, c"")
                .on_path("mount read-only", target)?;
        }
        return Ok(());
    }
    let mut options = vec!["remount", "bind"];
    options.extend(binding.read_only.then_some("ro"));
    options.extend(binding.options.iter().map(String::as_str));
    let arguments: Vec<OsString> = vec!["-o".into(), options.join(",").into(), target.into()];
    let mounted = mount_program::run(binding.program, &arguments, HELPER_DEADLINE);
    if mounted.is_err() {
        super::tear_down::unmount(&volume.pod, &volume.relative)?;
        volume.parent.remove_empty(&volume.name)?;
    }
    mounted
}

/// Links a block device in the pod's folder, for the runtime to hand to containers.
pub(super) fn link_device(pod: &Folder, link: &Path, device: &Path) -> Result<(), VolumeError> {
    let found = std::fs::metadata(device).map_err(|error| unusable(device, &error))?;
    if !found.file_type().is_block_device() {
        return Err(VolumeError::Refused(format!("path {:?} is no block device", device.display())));
    }
    Ok(link_to(pod, link, device)?)
}

/// Makes a link below the `volumeDevices` of a pod, or turns the one that is there.
pub(crate) fn link_to(pod: &Folder, link: &Path, device: &Path) -> Result<(), FileError> {
    let relative = link.strip_prefix(pod.path()).ok();
    let place = relative.and_then(|relative| relative.parent().zip(relative.file_name()));
    let Some((parent, name)) = place.filter(|(parent, _)| parent.starts_with("volumeDevices")) else {
        return Err(refused("not below the devices of the pod")).on_path("link device", link);
    };
    let parent = pod.make_below(parent, PRIVATE)?;
    if rustix::fs::readlinkat(&parent, name, Vec::new())
        .is_ok_and(|found| OsStr::new(&*found.to_string_lossy()) == device)
    {
        return Ok(());
    }
    crate::tree::remove(&parent, name)?;
    rustix::fs::symlinkat(device, &parent, name).on_path("link device", link)
}

fn unusable(path: &Path, error: &std::io::Error) -> VolumeError {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            VolumeError::Refused(format!("path {:?} does not exist", path.display()))
        }
        _ => VolumeError::Refused(format!("look at {}: {error}", path.display())),
    }
}
