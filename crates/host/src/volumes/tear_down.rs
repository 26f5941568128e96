//! Tears down the volumes of a pod.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ports::host::pod_folders::FileError;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::EMPTY_DIR;
use super::journal::Journal;
use crate::errors::OnPath;
use crate::files::folder::Folder;
use crate::files::tree;
use crate::mount_table;

/// Plugins whose volumes contain only data of the agent or the pod. The content of other volumes is never deleted.
const DISPOSABLE: [&str; 5] = [
    EMPTY_DIR,
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~projected",
    "kubernetes.io~downward-api",
];

const CSI: &str = "kubernetes.io~csi";
const NFS: &str = "kubernetes.io~nfs";

/// Unmounts, empties and removes all volumes of a pod. Continues after a failure and returns the first.
pub(super) fn tear_down(pod: &Folder) -> Result<(), FileError> {
    let mut failure = None;
    let mut keep_first_error = |result: Result<(), FileError>| {
        if let Err(error) = result {
            failure.get_or_insert(error);
        }
    };
    if let Some(plugins) = pod.existing("plugins")? {
        keep_first_error(tree::remove(&plugins, OsStr::new(EMPTY_DIR)));
    }
    // A subpath is a bind mount and would keep the pod's folder from being removed.
    if let Some(subpaths) = pod.existing("volume-subpaths")? {
        keep_first_error(unmount_below(&subpaths, UnmountMode::Detach));
    }
    if let Some(volumes) = pod.existing("volumes")? {
        for plugin_name in volumes.folder_names()? {
            // Drivers unmount their own volumes.
            if !plugin_name.as_bytes().starts_with(b"kubernetes.io~") || plugin_name == CSI {
                continue;
            }
            let Some(plugin) = volumes.existing(&plugin_name)? else { continue };
            let mode = if plugin_name == NFS { UnmountMode::Detach } else { UnmountMode::Wait };
            keep_first_error(unmount_below(&plugin, mode));
            let disposable = DISPOSABLE.iter().any(|name| plugin_name == *name);
            for volume in plugin.names()? {
                keep_first_error(if disposable {
                    tree::remove(&plugin, &volume)
                } else {
                    plugin.remove_empty(&volume)
                });
            }
            if plugin.names()?.is_empty() {
                keep_first_error(volumes.remove_empty(&plugin_name));
            }
        }
    }
    if let Some(devices) = pod.existing("volumeDevices")? {
        keep_first_error(unlink_devices(&devices));
    }
    keep_first_error(remove_stale_entries(pod));
    failure.map_or(Ok(()), Err)
}

/// Removes the links to block devices, not the devices.
fn unlink_devices(devices: &Folder) -> Result<(), FileError> {
    for plugin_name in devices.folder_names()?.into_iter().filter(|name| name != CSI) {
        let Some(plugin) = devices.existing(&plugin_name)? else { continue };
        for name in plugin.names()? {
            plugin.remove_file(&name, "remove link")?;
        }
        devices.remove_empty(&plugin_name)?;
    }
    Ok(())
}

/// Removes entries without a mount from the journal.
fn remove_stale_entries(pod: &Folder) -> Result<(), FileError> {
    let journal = Journal::of(pod);
    let entries = journal.entries()?;
    if entries.is_empty() {
        return Ok(());
    }
    let base = pod.real_path()?;
    let table = mount_table::table()?;
    let left: Vec<_> = entries
        .into_iter()
        .filter(|entry| table.iter().any(|mount| mount.mount_point == base.join(&entry.path)))
        .collect();
    journal.save(&left)
}

fn unmount_below(folder: &Folder, mode: UnmountMode) -> Result<(), FileError> {
    let base = folder.real_path()?;
    let mounts = mount_table::table()?;
    for mount in mount_table::at_or_below(&mounts, &base).iter().rev() {
        if let Ok(relative) = mount.mount_point.strip_prefix(&base) {
            unmount_with(folder, relative, mode)?;
        }
    }
    Ok(())
}

/// Unmounts; a busy mount is detached, so that it disappears when it is not used any more.
pub(super) fn unmount(folder: &Folder, relative: &Path) -> Result<(), FileError> {
    unmount_with(folder, relative, UnmountMode::Wait)
}

#[derive(Clone, Copy)]
enum UnmountMode {
    /// Waits until all data is written.
    Wait,
    /// Does not wait, because the server of a share may not respond. Data is written later, if possible.
    Detach,
}

/// Uses the descriptor of the parent folder, so that a symlink planted by a container cannot redirect the unmount.
fn unmount_with(folder: &Folder, relative: &Path, mode: UnmountMode) -> Result<(), FileError> {
    let path = folder.path().join(relative);
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(Errno::BUSY).on_path("unmount volumes folder at", path);
    };
    let parent = folder.existing(Path::new(".").join(parent))?;
    let Some(parent) = parent else { return Ok(()) };
    let target = parent.magic_path().join(name);
    let detach = || rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
    let result = match mode {
        UnmountMode::Detach => detach(),
        UnmountMode::Wait => match rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => detach(),
            result => result,
        },
    };
    match result {
        // Not a mount point, or not any more.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error).on_path("unmount", path),
    }
}
