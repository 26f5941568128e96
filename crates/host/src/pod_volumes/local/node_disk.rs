//! Block devices with a file system: mounted once for the node, where upstream has them, and bound from there into each
//! pod.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use ports::pod_folders::FileError;
use ports::pod_volumes::VolumeError;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::Binding;
use crate::disk::{self, Disk};
use crate::failure::{OnPath, refused};
use crate::folder::Folder;
use crate::mount_table::{self, mounted_at, table};
use crate::pod_folders::PRIVATE;
use crate::pod_volumes::shared_disk::{Busy, Turn};
use crate::pod_volumes::{Volume, tear_down};

const PLACE: &str = "plugins/kubernetes.io/local-volume/mounts";
/// How long others may work on a device.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The mounted file system of a device. It is not swept before the turn is dropped: no pod has it yet.
pub(super) fn attach<'a>(volume: &Volume, binding: &Binding<'a>) -> Result<(Folder, Turn<'a>), VolumeError> {
    let (device, fs_type) = (&binding.source.path, binding.source.fs_type.as_str());
    let turn = wait_for(|| Ok(binding.busy.turn(&volume.name.to_string_lossy())))?;
    let _locked = lock(device)?;
    let mounts = Folder::make(root(&volume.pod)?, PRIVATE)?.make_below(PLACE, PRIVATE)?;
    mounts.make_below(&volume.name, PRIVATE)?;
    let place = mounts.real_path()?.join(&volume.name);
    if mounted_at(&table()?, &place).is_none() {
        let disk = Disk { device, fs_type, read_only: binding.read_only, options: binding.options };
        if let Err(error) = disk::mount(&disk, &place, binding.program) {
            mounts.remove_empty(&volume.name)?;
            let reason = format!(
                "local: failed to mount device {} at {} (fstype: {fs_type}), error {}",
                device.display(),
                place.display(),
                error.text()
            );
            return Err(disk::not_mounted(&error, reason));
        }
    }
    let mounted = mounts.existing(&volume.name)?;
    // What lies beneath the mount is nobody's.
    let mounted = mounted.filter(|mounted| on_another_disk(mounted, &mounts));
    Ok((mounted.ok_or(VolumeError::InProgress)?, turn))
}

/// Locks a device, as udev does it: pods that share one come at one time, and only the first may find it empty.
fn lock(device: &Path) -> Result<File, VolumeError> {
    let opened = File::open(device).on_path("open device", device)?;
    wait_for(|| match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        locked => Ok(Some(locked.on_path("lock device", device)?)),
    })?;
    Ok(opened)
}

/// Asks until there is something, but not for long.
#[expect(clippy::disallowed_methods, reason = "volumes are set up on threads that may block")]
fn wait_for<T>(mut ask: impl FnMut() -> Result<Option<T>, VolumeError>) -> Result<T, VolumeError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask()? {
            Some(found) => return Ok(found),
            None if Instant::now() >= end => return Err(VolumeError::InProgress),
            None => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

/// Unmounts what no pod has any more, and nobody is about to give to one.
pub(in crate::pod_volumes) fn sweep(root: &Path, busy: &Busy) -> Result<(), FileError> {
    let Some(mounts) = Folder::open(&root.join(PLACE))? else { return Ok(()) };
    let pods = root.canonicalize().on_path("resolve folder", root)?.join("pods");
    for name in mounts.folder_names()? {
        let Some(_turn) = busy.turn(&name.to_string_lossy()) else { continue };
        let table = table()?;
        if let Some(mount) = mounted_at(&table, &mounts.real_path()?.join(&name)) {
            let of_pods = mount_table::at_or_below(&table, &pods);
            if of_pods.iter().any(|other| other.device == mount.device) {
                continue;
            }
            tear_down::unmount(&mounts, Path::new(&name))?;
        }
        mounts.remove_empty(&name)?;
    }
    Ok(())
}

/// The root folder that a pod's folder lies in, `pods/<uid>` below it.
fn root(pod: &Folder) -> Result<&Path, FileError> {
    let root = pod.path().ancestors().nth(2);
    root.ok_or_else(|| refused("not below a root folder")).on_path("find the root folder of", pod.path())
}

fn on_another_disk(folder: &Folder, parent: &Folder) -> bool {
    let device = |folder: &Folder| rustix::fs::fstat(folder).map(|stat| stat.st_dev).ok();
    device(folder).is_some_and(|found| Some(found) != device(parent))
}
