//! A device becomes a mounted file system.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ports::pod_volumes::VolumeError;

use crate::{helper, mount_program};

/// Large disks take their time.
const HELPER_DEADLINE: Duration = Duration::from_secs(100);
/// `blkid` found nothing it knows.
const EMPTY: &str = "exit status 2";
/// `fsck` found what it cannot mend.
const BROKEN: &str = "exit status 4";

/// What is mounted.
pub(crate) struct Disk<'a> {
    pub(crate) device: &'a Path,
    pub(crate) fs_type: &'a str,
    pub(crate) read_only: bool,
    pub(crate) options: &'a [String],
}

/// Mounts a disk; one that holds nothing is formatted first, unless it is for reading.
pub(crate) fn mount(disk: &Disk<'_>, place: &Path, program: &OsStr) -> Result<(), VolumeError> {
    let device = disk.device;
    match holds_something(device)? {
        true if !disk.read_only => check(device)?,
        true => {}
        false if disk.read_only => {
            return Err(VolumeError::Refused(format!(
                "disk {} holds no file system, and as a read-only disk gets none",
                device.display()
            )));
        }
        false => format(device, disk.fs_type)?,
    }
    let mut options = vec![if disk.read_only { "ro" } else { "rw" }];
    options.extend(disk.options.iter().map(String::as_str));
    let arguments: Vec<OsString> = vec![
        "-t".into(),
        disk.fs_type.into(),
        "-o".into(),
        options.join(",").into(),
        device.into(),
        place.into(),
    ];
    mount_program::run(program, &arguments, HELPER_DEADLINE)
}

/// Whether there is a file system or a table of partitions. Who cannot tell must not format.
fn holds_something(device: &Path) -> Result<bool, VolumeError> {
    let words = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"];
    let arguments: Vec<OsString> = words.iter().map(OsString::from).chain([device.into()]).collect();
    let ended = helper::run(OsStr::new("blkid"), &arguments, HELPER_DEADLINE);
    match ended.failure.as_deref() {
        None => Ok(true),
        Some(EMPTY) => Ok(false),
        Some(failure) => Err(VolumeError::Refused(format!(
            "what disk {} holds cannot be told: blkid: {failure}: {}",
            device.display(),
            ended.output.trim()
        ))),
    }
}

fn check(device: &Path) -> Result<(), VolumeError> {
    let ended = helper::run(OsStr::new("fsck"), &["-a".into(), device.into()], HELPER_DEADLINE);
    match ended.failure.as_deref() {
        Some(BROKEN) => Err(VolumeError::Refused(format!(
            "'fsck' found errors on device {} but could not correct them: {}",
            device.display(),
            ended.output.trim()
        ))),
        // No checker for this file system, or none installed: mounting tells.
        None | Some(_) => Ok(()),
    }
}

fn format(device: &Path, fs_type: &str) -> Result<(), VolumeError> {
    let program = format!("mkfs.{fs_type}");
    let mut arguments: Vec<OsString> = Vec::new();
    if matches!(fs_type, "ext3" | "ext4") {
        arguments.extend(["-F".into(), "-m0".into()]);
    }
    arguments.push(device.into());
    let ended = helper::run(OsStr::new(&program), &arguments, HELPER_DEADLINE);
    match ended.failure {
        None => Ok(()),
        Some(failure) => Err(VolumeError::Refused(format!(
            "format of disk {} failed: type:({fs_type:?}) errcode:({failure}) output:({})",
            device.display(),
            ended.output.trim()
        ))),
    }
}
