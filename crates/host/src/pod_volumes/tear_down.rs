//! Taking the volumes of a pod down.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ports::pod_folders::FileError;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::EMPTY_DIR;
use super::journal::Journal;
use crate::failure::OnPath;
use crate::folder::Folder;
use crate::{mount_table, tree};

/// Plugins whose volumes hold nothing but what the agent or the pod itself wrote. The content of any other
/// volume belongs to somebody else and is never deleted.
const DISPOSABLE: [&str; 5] = [
    EMPTY_DIR,
    "kubernetes.io~configmap",
    "kubernetes.io~secret",
    "kubernetes.io~projected",
    "kubernetes.io~downward-api",
];

/// The plugin of CSI drivers.
const CSI: &str = "kubernetes.io~csi";
/// The plugin of shares.
const NFS: &str = "kubernetes.io~nfs";

/// Unmounts, empties and removes all volumes of a pod folder. Goes on after a failure and returns the first.
pub(super) fn tear_down(pod: &Folder) -> Result<(), FileError> {
    let mut failure = None;
    let mut note = |result: Result<(), FileError>| {
        if let Err(error) = result {
            failure.get_or_insert(error);
        }
    };
    if let Some(plugins) = pod.existing("plugins")? {
        note(tree::remove(&plugins, OsStr::new(EMPTY_DIR)));
    }
    // A subpath is a bind mount of part of a volume and would keep its pod folder forever.
    if let Some(subpaths) = pod.existing("volume-subpaths")? {
        note(unmount_below(&subpaths, Way::Detach));
    }
    if let Some(volumes) = pod.existing("volumes")? {
        for plugin_name in volumes.folder_names()? {
            // What drivers have mounted is theirs to undo.
            if !plugin_name.as_bytes().starts_with(b"kubernetes.io~") || plugin_name == CSI {
                continue;
            }
            let Some(plugin) = volumes.existing(&plugin_name)? else { continue };
            let way = if plugin_name == NFS { Way::Detach } else { Way::Wait };
            note(unmount_below(&plugin, way));
            let disposable = DISPOSABLE.iter().any(|name| plugin_name == *name);
            for volume in plugin.names()? {
                note(if disposable { tree::remove(&plugin, &volume) } else { plugin.remove_empty(&volume) });
            }
            if plugin.names()?.is_empty() {
                note(volumes.remove_empty(&plugin_name));
            }
        }
    }
    if let Some(devices) = pod.existing("volumeDevices")? {
        note(unlink_devices(&devices));
    }
    note(strike_out(pod));
    failure.map_or(Ok(()), Err)
}

/// Removes the links to block devices; what they lead to belongs to somebody else.
fn unlink_devices(devices: &Folder) -> Result<(), FileError> {
    for plugin_name in devices.folder_names()?.into_iter().filter(|name| name != CSI) {
        let Some(plugin) = devices.existing(&plugin_name)? else { continue };
        for name in plugin.names()? {
            match rustix::fs::unlinkat(&plugin, &name, rustix::fs::AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).on_path("remove link", plugin.path().join(name)),
            }
        }
        devices.remove_empty(&plugin_name)?;
    }
    Ok(())
}

/// Strikes the mounts that are gone out of the journal.
fn strike_out(pod: &Folder) -> Result<(), FileError> {
    let journal = Journal::of(pod);
    let entries = journal.entries()?;
    if entries.is_empty() {
        return Ok(());
    }
    let base = pod.real_path()?;
    let table = mount_table::read(Path::new(mount_table::OWN))?;
    let left: Vec<_> = entries
        .into_iter()
        .filter(|entry| table.iter().any(|mount| mount.mount_point == base.join(&entry.path)))
        .collect();
    journal.save(&left)
}

/// Unmounts everything below a folder, last mounted first.
fn unmount_below(folder: &Folder, way: Way) -> Result<(), FileError> {
    let base = folder.real_path()?;
    let mounts = mount_table::read(Path::new(mount_table::OWN))?;
    for mount in mount_table::at_or_below(&mounts, &base).iter().rev() {
        if let Ok(relative) = mount.mount_point.strip_prefix(&base) {
            unmount_by(folder, relative, way)?;
        }
    }
    Ok(())
}

/// Unmounts, now or as soon as nobody uses it any more.
pub(super) fn unmount(folder: &Folder, relative: &Path) -> Result<(), FileError> {
    unmount_by(folder, relative, Way::Wait)
}

/// How long an unmount may take.
#[derive(Clone, Copy)]
enum Way {
    /// Until everything is written.
    Wait,
    /// No time: the server of a share may not answer, and writes what it can later.
    Detach,
}

/// The mount point is reached through the descriptor of its parent, so that no symlink a container planted
/// can turn this into an unmount elsewhere.
fn unmount_by(folder: &Folder, relative: &Path, way: Way) -> Result<(), FileError> {
    let path = folder.path().join(relative);
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(Errno::BUSY).on_path("unmount the folder of volumes at", path);
    };
    let parent = folder.existing(Path::new(".").join(parent))?;
    let Some(parent) = parent else { return Ok(()) };
    let target = parent.magic_path().join(name);
    let detach = || rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH);
    let result = match way {
        Way::Detach => detach(),
        Way::Wait => match rustix::mount::unmount(&target, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => detach(),
            result => result,
        },
    };
    match result {
        // Not a mount point (any more).
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error).on_path("unmount", path),
    }
}
