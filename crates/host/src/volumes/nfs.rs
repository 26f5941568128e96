//! NFS volumes.

use std::ffi::OsStr;
use std::time::Duration;

use ports::host::pod_volumes::VolumeError;

use super::VolumeFolder;
use super::shared_disk::{is_bound, pod_mount_point};
use crate::helper_program::Arguments;
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
    if is_bound(volume)? {
        return Ok(());
    }
    volume.parent.make_below(&volume.name, PRIVATE_MODE)?;
    volume.record_mount("nfs")?;
    let mut arguments = Arguments::new(&["-t", "nfs"]);
    if !options.is_empty() {
        arguments = arguments.value("-o", options.join(","));
    }
    let arguments = arguments.operands([source.into(), pod_mount_point(volume)?.into_os_string()]);
    let mounted = mount_program::run(program, &arguments, HELPER_TIMEOUT);
    if mounted.is_err() {
        if is_bound(volume)? {
            super::tear_down::unmount(&volume.pod, &volume.relative)?;
        }
        volume.parent.remove_empty(&volume.name)?;
    }
    mounted
}
