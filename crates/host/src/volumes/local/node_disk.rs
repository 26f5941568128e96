//! Local block devices with a file system: mounted once for the node, in upstream's location, and bind-mounted from
//! there into each pod.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::VolumeError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::Binding;
use crate::errors::{OnPath, invalid_input};
use crate::files::folder::Folder;
use crate::mount_table::{mounted_at, table};
use crate::pods::pod_folders::PRIVATE_MODE;
use crate::volumes::VolumeFolder;
use crate::volumes::disk::{self, DiskMount};
use crate::volumes::scsi_disks::wait_for;
use crate::volumes::shared_disk::{DiskLock, DiskLocks, DiskState, unmount_unused};

const MOUNTS: &str = "plugins/kubernetes.io/local-volume/mounts";
/// How long to wait while another process uses the device.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Mounts the file system of a device. The returned lock keeps [`sweep`] from unmounting it before the pod uses it.
pub(super) fn attach<'a>(
    volume: &VolumeFolder,
    binding: &Binding<'a>,
) -> Result<(Folder, DiskLock<'a>), VolumeError> {
    let (device, fs_type) = (&binding.source.path, binding.source.fs_type.as_str());
    let lock = wait_for(LOCK_TIMEOUT, || binding.locks.try_lock(&volume.name.to_string_lossy()));
    let lock = lock.ok_or(VolumeError::InProgress)?;
    let _device_lock = lock_device(device)?;
    let mounts = Folder::make(root(&volume.pod)?, PRIVATE_MODE)?.make_below(MOUNTS, PRIVATE_MODE)?;
    mounts.make_below(&volume.name, PRIVATE_MODE)?;
    let target = mounts.real_path()?.join(&volume.name);
    if mounted_at(&table()?, &target).is_none() {
        let disk = DiskMount { device, fs_type, read_only: binding.read_only, options: binding.options };
        if let Err(error) = disk::mount(&disk, &target, binding.program) {
            mounts.remove_empty(&volume.name)?;
            let reason = format!(
                "local: failed to mount device {} at {} (fstype: {fs_type}), error {}",
                device.display(),
                target.display(),
                error.text()
            );
            return Err(disk::mount_error(&error, reason));
        }
    }
    let mounted = mounts.existing(&volume.name)?;
    // Never use the folder beneath the mount.
    let mounted = mounted.filter(|mounted| on_another_disk(mounted, &mounts));
    Ok((mounted.ok_or(VolumeError::InProgress)?, lock))
}

/// Locks a device like udev does, so that two pods that share it cannot both find it unformatted.
fn lock_device(device: &Path) -> Result<File, VolumeError> {
    let opened = File::open(device).on_path("open device", device)?;
    let lock = || match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => None,
        locked => Some(locked),
    };
    wait_for(LOCK_TIMEOUT, lock).ok_or(VolumeError::InProgress)?.on_path("lock device", device)?;
    Ok(opened)
}

/// Unmounts devices that no pod uses. Skips locked ones.
pub(in crate::volumes) fn sweep(root: &Path, locks: &DiskLocks) -> Result<(), FileError> {
    let Some(mounts) = Folder::open(&root.join(MOUNTS))? else { return Ok(()) };
    for name in mounts.folder_names()? {
        let Some(_lock) = locks.try_lock(&name.to_string_lossy()) else { continue };
        if unmount_unused(root, &mounts, &name)? == DiskState::Unused {
            mounts.remove_empty(&name)?;
        }
    }
    Ok(())
}

/// The root folder of a pod's folder `pods/<uid>`.
fn root(pod: &Folder) -> Result<&Path, FileError> {
    let root = pod.path().ancestors().nth(2);
    root.ok_or_else(|| invalid_input("not below the root folder")).on_path("find root folder of", pod.path())
}

fn on_another_disk(folder: &Folder, parent: &Folder) -> bool {
    let device = |folder: &Folder| rustix::fs::fstat(folder).map(|stat| stat.st_dev).ok();
    device(folder).is_some_and(|found| Some(found) != device(parent))
}
