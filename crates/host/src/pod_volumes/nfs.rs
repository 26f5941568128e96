//! Shares of other machines.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ports::pod_folders::FileError;
use ports::pod_volumes::VolumeError;

use super::Volume;
use crate::pod_folders::PRIVATE;
use crate::{mount_program, mount_table};

/// Shorter than the deadline of the whole operation, so that the helper is killed and told of.
const HELPER_DEADLINE: Duration = Duration::from_secs(110);

/// Mounts a share at the volume's folder by the host's `mount`, which needs the helper for the kind of share. Nothing
/// here looks into the share: a server that does not answer would hold us up.
pub(super) fn set_up(
    volume: &Volume,
    source: &str,
    options: &[&str],
    program: &OsStr,
) -> Result<(), VolumeError> {
    let target = volume.parent.real_path()?.join(&volume.name);
    if is_mounted(&target)? {
        return Ok(());
    }
    volume.parent.make_below(&volume.name, PRIVATE)?;
    volume.note_mount("nfs")?;
    let mut arguments: Vec<OsString> = vec!["-t".into(), "nfs".into()];
    if !options.is_empty() {
        arguments.extend(["-o".into(), options.join(",").into()]);
    }
    arguments.extend([source.into(), target.clone().into_os_string()]);
    let mounted = mount_program::run(program, &arguments, HELPER_DEADLINE);
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
