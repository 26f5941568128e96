//! Removes the folder of a finished pod.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use ports::host::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType};

use crate::errors::OnPath;
use crate::files::folder::{Folder, file_type};
use crate::files::tree;
use crate::mount_table;

const VOLUMES: &str = "volumes";
const SUBPATHS: &str = "volume-subpaths";

/// Removes `pods/<uid>`. Checks everything before it removes anything. Below `volumes` it only removes empty folders,
/// so data that appears in between is safe.
pub(super) fn remove_pod(pods: &Folder, uid: &OsStr) -> Result<(), FileError> {
    let Some(pod) = pods.existing(uid)? else { return Ok(()) };
    check_no_mounts(&pod)?;
    let volumes = pod.existing(VOLUMES)?;
    if let Some(volumes) = &volumes {
        check_volumes_are_empty(volumes)?;
    }
    let subpaths = pod.existing(SUBPATHS)?;
    if let Some(subpaths) = &subpaths {
        for_each_mount_point(subpaths, Step::Check)?;
    }

    if let Some(volumes) = &volumes {
        remove_empty_volumes(volumes)?;
    }
    if let Some(subpaths) = &subpaths {
        for_each_mount_point(subpaths, Step::Remove)?;
    }
    pod.remove_empty(OsStr::new(VOLUMES))?;
    pod.remove_empty(OsStr::new(SUBPATHS))?;
    for name in pod.names()? {
        if name != VOLUMES && name != SUBPATHS {
            tree::remove(&pod, &name)?;
        }
    }
    pods.remove_empty(uid)
}

fn check_no_mounts(pod: &Folder) -> Result<(), FileError> {
    let mounts = mount_table::table()?;
    match mount_table::at_or_below(&mounts, &pod.real_path()?).first() {
        None => Ok(()),
        Some(mount) => Err(io::Error::new(io::ErrorKind::ResourceBusy, "still mounted"))
            .on_path("remove pod folder with mount", &mount.mount_point),
    }
}

fn check_volumes_are_empty(volumes: &Folder) -> Result<(), FileError> {
    for plugin in volumes.names()? {
        let Some(plugin) = volumes.existing(&plugin)? else { continue };
        for volume in plugin.names()? {
            if let Some(volume) = plugin.existing(&volume)?
                && !volume.names()?.is_empty()
            {
                return Err(volume_has_data(volume.path()));
            }
        }
    }
    Ok(())
}

fn remove_empty_volumes(volumes: &Folder) -> Result<(), FileError> {
    for name in volumes.names()? {
        if let Some(plugin) = volumes.existing(&name)? {
            for volume in plugin.names()? {
                plugin.remove_empty(&volume)?;
            }
        }
        volumes.remove_empty(&name)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Step {
    Check,
    Remove,
}

/// Checks or removes the mount points of subpaths, `<volume>/<container>/<index>`: empty folders or empty files.
fn for_each_mount_point(subpaths: &Folder, step: Step) -> Result<(), FileError> {
    for volume_name in subpaths.names()? {
        let Some(volume) = subpaths.existing(&volume_name)? else { continue };
        for container_name in volume.names()? {
            let Some(container) = volume.existing(&container_name)? else { continue };
            for target in container.names()? {
                check_or_remove(&container, &target, step)?;
            }
            if matches!(step, Step::Remove) {
                volume.remove_empty(&container_name)?;
            }
        }
        if matches!(step, Step::Remove) {
            subpaths.remove_empty(&volume_name)?;
        }
    }
    Ok(())
}

fn check_or_remove(container: &Folder, name: &OsStr, step: Step) -> Result<(), FileError> {
    let path = container.path().join(name);
    let Some(stat) = container.stat(name)? else { return Ok(()) };
    let is_empty_file = file_type(&stat) == FileType::RegularFile && stat.st_size == 0;
    match step {
        Step::Check if is_empty_file => Ok(()),
        Step::Check => match container.existing(name)? {
            Some(folder) if folder.names()?.is_empty() => Ok(()),
            None => Ok(()),
            Some(_) => Err(volume_has_data(&path)),
        },
        Step::Remove if is_empty_file => {
            rustix::fs::unlinkat(container, name, AtFlags::empty()).on_path("remove", path)
        }
        Step::Remove => container.remove_empty(name),
    }
}

fn volume_has_data(path: &Path) -> FileError {
    FileError {
        operation: "remove pod folder with volume",
        path: path.to_path_buf(),
        source: io::Error::new(io::ErrorKind::DirectoryNotEmpty, "the volume still contains data"),
    }
}
