//! Removing the folder of a pod that is gone.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use ports::pod_folders::FileError;
use rustix::fs::{AtFlags, FileType};

use crate::failure::OnPath;
use crate::folder::{Folder, kind};
use crate::{mount_table, tree};

const VOLUMES: &str = "volumes";
const SUBPATHS: &str = "volume-subpaths";

/// Removes `pods/<uid>`. Everything is looked at before anything is removed. What appears below `volumes`
/// in between is safe too: there only empty folders are removed.
pub(super) fn remove_pod(pods: &Folder, uid: &OsStr) -> Result<(), FileError> {
    let Some(pod) = pods.existing(uid)? else { return Ok(()) };
    refuse_mounts(&pod)?;
    let volumes = pod.existing(VOLUMES)?;
    if let Some(volumes) = &volumes {
        refuse_volumes_with_data(volumes)?;
    }
    let subpaths = pod.existing(SUBPATHS)?;
    if let Some(subpaths) = &subpaths {
        walk_mount_targets(subpaths, Step::Check)?;
    }

    if let Some(volumes) = &volumes {
        remove_empty_volumes(volumes)?;
    }
    if let Some(subpaths) = &subpaths {
        walk_mount_targets(subpaths, Step::Remove)?;
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

fn refuse_mounts(pod: &Folder) -> Result<(), FileError> {
    let mounts = mount_table::read(Path::new(mount_table::OWN))?;
    match mount_table::at_or_below(&mounts, &pod.real_path()?).first() {
        None => Ok(()),
        Some(mount) => Err(io::Error::new(io::ErrorKind::ResourceBusy, "still mounted"))
            .on_path("remove pod folder with mount", &mount.mount_point),
    }
}

fn refuse_volumes_with_data(volumes: &Folder) -> Result<(), FileError> {
    for plugin in volumes.names()? {
        let Some(plugin) = volumes.existing(&plugin)? else { continue };
        for volume in plugin.names()? {
            if let Some(volume) = plugin.existing(&volume)?
                && !volume.names()?.is_empty()
            {
                return Err(held(volume.path()));
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

/// Bind mounts leave their targets behind in `<volume>/<container>/<index>`: empty folders or empty files.
fn walk_mount_targets(subpaths: &Folder, step: Step) -> Result<(), FileError> {
    for volume_name in subpaths.names()? {
        let Some(volume) = subpaths.existing(&volume_name)? else { continue };
        for container_name in volume.names()? {
            let Some(container) = volume.existing(&container_name)? else { continue };
            for target in container.names()? {
                mount_target(&container, &target, step)?;
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

fn mount_target(container: &Folder, name: &OsStr, step: Step) -> Result<(), FileError> {
    let path = container.path().join(name);
    let Some(stat) = container.stat(name)? else { return Ok(()) };
    let empty_file = kind(&stat) == FileType::RegularFile && stat.st_size == 0;
    match step {
        Step::Check if empty_file => Ok(()),
        Step::Check => match container.existing(name)? {
            Some(folder) if folder.names()?.is_empty() => Ok(()),
            None => Ok(()),
            Some(_) => Err(held(&path)),
        },
        Step::Remove if empty_file => {
            rustix::fs::unlinkat(container, name, AtFlags::empty()).on_path("remove", path)
        }
        Step::Remove => container.remove_empty(name),
    }
}

fn held(path: &Path) -> FileError {
    FileError {
        operation: "remove pod folder with volume",
        path: path.to_path_buf(),
        source: io::Error::new(io::ErrorKind::DirectoryNotEmpty, "volume still holds data"),
    }
}
