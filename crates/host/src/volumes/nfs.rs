//! NFS volumes.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::VolumeError;

use super::VolumeFolder;
use crate::mount_table;
use crate::pods::pod_folders::PRIVATE_MODE;
use crate::volumes::mount_program;

/// Shorter than the timeout of the whole operation, so that a hanging helper is killed and reported.
const HELPER_TIMEOUT: Duration = Duration::from_secs(110);

/// Mounts a share with the host's `mount`, which needs the NFS mount helper. Does not access the share, which could
/// hang.
pub(super) fn set_up(
    volume: &VolumeFolder,
    source: &str,
    options: &[&str],
    program: &OsStr,
) -> Result<(), VolumeError> {
    let target = volume.parent.real_path()?.join(&volume.name);
    if is_mounted(&target)? {
        return Ok(());
    }
    volume.parent.make_below(&volume.name, PRIVATE_MODE)?;
    volume.record_mount("nfs")?;
    let mut arguments: Vec<OsString> = vec!["-t".into(), "nfs".into()];
    if !options.is_empty() {
        arguments.extend(["-o".into(), options.join(",").into()]);
    }
    arguments.extend([source.into(), target.clone().into_os_string()]);
    let mounted = mount_program::run(program, &arguments, HELPER_TIMEOUT);
    if mounted.is_err() {
        if is_mounted(&target)? {
            super::tear_down::unmount(&volume.pod, &volume.relative)?;
        }
        volume.parent.remove_empty(&volume.name)?;
    }
    mounted
}

fn is_mounted(target: &Path) -> Result<bool, FileError> {
    let table = mount_table::read(Path::new(mount_table::OWN))?;
    Ok(table.iter().any(|mount| mount.mount_point == target))
}
