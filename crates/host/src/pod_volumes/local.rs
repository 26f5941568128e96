//! What PersistentVolumes name on this host: folders and block devices.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use ports::pod_folders::FileError;
use ports::pod_volumes::VolumeError;
use rustix::mount::MountFlags;

use super::Volume;
use crate::failure::{OnPath, refused};
use crate::folder::Folder;
use crate::pod_folders::PRIVATE;
use crate::{helper, mount_table};

const HELPER_DEADLINE: Duration = Duration::from_secs(60);

/// How a folder is bound.
pub(super) struct Binding<'a> {
    pub(super) source: &'a Path,
    pub(super) read_only: bool,
    pub(super) options: &'a [String],
    pub(super) program: &'a OsStr,
}

/// Binds a folder of the host at the volume's. `own` gives it to the pod's group before any container sees it, unless
/// another pod has it mounted: that one's group was first.
pub(super) fn set_up(
    volume: &Volume,
    binding: &Binding<'_>,
    own: impl FnOnce(&Folder) -> Result<(), FileError>,
) -> Result<(), VolumeError> {
    let found = std::fs::metadata(binding.source);
    let is_folder = found.map_err(|error| unusable(binding.source, &error))?.is_dir();
    let target = volume.parent.real_path()?.join(&volume.name);
    let table = mount_table::read(Path::new(mount_table::OWN))?;
    if !table.iter().any(|mount| mount.mount_point == target) {
        if !is_folder {
            return Err(VolumeError::Refused(format!(
                "path {:?} is no directory: block devices can be used with volumeMode Block only",
                binding.source.display()
            )));
        }
        let Some(source) = Folder::open(binding.source)? else {
            return Err(VolumeError::Refused(format!("path {:?} does not exist", binding.source.display())));
        };
        let shared = table.iter().any(|mount| mount.mount_point.ends_with(&volume.relative));
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
    let ended = helper::run(binding.program, &arguments, HELPER_DEADLINE);
    let Some(failure) = ended.failure else { return Ok(()) };
    super::tear_down::unmount(&volume.pod, &volume.relative)?;
    volume.parent.remove_empty(&volume.name)?;
    Err(VolumeError::Refused(format!(
        "mount failed: {failure}\nMounting command: {}\nMounting arguments: {}\nOutput: {}",
        binding.program.to_string_lossy(),
        arguments.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        ended.output
    )))
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
