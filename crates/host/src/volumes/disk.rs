//! Checks, formats, mounts and grows the file system of a block device.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ports::host::pod_volumes::{VolumeError, VolumeStep};

use crate::helper_program;
use crate::volumes::mount_program;

/// Operations on large disks are slow.
const HELPER_TIMEOUT: Duration = Duration::from_secs(100);
/// A program that is killed while it repairs or formats a disk leaves it broken, so it practically never times out.
/// The pod reports the wait after two minutes, and its volumes stay locked.
const WRITER_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const PARTITIONED: &str = "unknown data, probably partitions";
/// `blkid` found no known format.
const NO_FORMAT: &str = "exit status 2";
/// `fsck` found errors that it cannot repair.
const UNREPAIRABLE: &str = "exit status 4";

pub(crate) struct DiskMount<'a> {
    pub(crate) device: &'a Path,
    pub(crate) fs_type: &'a str,
    pub(crate) read_only: bool,
    pub(crate) options: &'a [String],
}

/// Mounts a disk. Formats an unformatted disk first, unless it is read-only.
pub(crate) fn mount(disk: &DiskMount<'_>, target: &Path, program: &OsStr) -> Result<(), VolumeError> {
    let device = disk.device;
    let found = format_of(device)?;
    match &found {
        Some(_) if !disk.read_only => check(device)?,
        Some(_) => {}
        None if disk.read_only => {
            return Err(VolumeError::Refused(format!(
                "cannot mount unformatted disk {} as we are manipulating it in read-only mode",
                device.display()
            )));
        }
        None => format(device, disk.fs_type)?,
    }
    let mut options = vec![if disk.read_only { "ro" } else { "rw" }];
    options.extend(disk.options.iter().map(String::as_str));
    let arguments: Vec<OsString> = vec![
        "-t".into(),
        disk.fs_type.into(),
        "-o".into(),
        options.join(",").into(),
        device.into(),
        target.into(),
    ];
    let mounted = mount_program::run(program, &arguments, HELPER_TIMEOUT);
    match found {
        Some(found) if found != disk.fs_type => {
            mounted.map_err(|error| VolumeError::OtherFileSystem(error.text()))
        }
        Some(_) | None => mounted,
    }
}

/// The error of a failed mount for the node.
pub(crate) fn mount_error(error: &VolumeError, reason: String) -> VolumeError {
    match error {
        VolumeError::OtherFileSystem(_) => VolumeError::OtherFileSystem(reason),
        _ => VolumeError::Step { step: VolumeStep::MountDevice, reason },
    }
}

/// Grows a mounted file system to the size of its disk.
pub(crate) fn grow(device: &Path, mounted: &Path) -> Result<(), VolumeError> {
    let (program, arguments): (&str, Vec<OsString>) = match format_of(device)?.as_deref() {
        // The file system gets the full size when the disk is formatted.
        None => return Ok(()),
        Some("ext3" | "ext4") => ("resize2fs", vec![device.into()]),
        Some("xfs") => ("xfs_growfs", vec!["-d".into(), mounted.into()]),
        Some("btrfs") => ("btrfs", vec!["filesystem".into(), "resize".into(), "max".into(), mounted.into()]),
        Some(other) => {
            return Err(VolumeError::Refused(format!(
                "ResizeFS.Resize - resize of format {other} is not supported for device {} mounted at {}",
                device.display(),
                mounted.display()
            )));
        }
    };
    let outcome = helper_program::run(OsStr::new(program), &arguments, WRITER_TIMEOUT);
    let subject = if program == "resize2fs" { device } else { mounted };
    let Some(failure) = outcome.failure else { return Ok(()) };
    let (subject, output) = (subject.display(), outcome.output);
    Err(VolumeError::Refused(format!(
        "resize of device {subject} failed: {failure}. {program} output: {output}"
    )))
}

/// The format of a disk; `None` if it is unformatted. Fails if that is uncertain, so that no data is overwritten.
fn format_of(device: &Path) -> Result<Option<String>, VolumeError> {
    let options = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"];
    let arguments: Vec<OsString> = options.iter().map(OsString::from).chain([device.into()]).collect();
    let outcome = helper_program::run(OsStr::new("blkid"), &arguments, HELPER_TIMEOUT);
    match outcome.failure.as_deref() {
        None => Ok(Some(parse_format(&outcome.output))),
        Some(NO_FORMAT) => Ok(None),
        Some(failure) => Err(VolumeError::Refused(format!(
            "failed to detect the format of disk {}: blkid: {failure}: {}",
            device.display(),
            outcome.output.trim()
        ))),
    }
}

fn parse_format(output: &str) -> String {
    let found = output.lines().find_map(|line| line.strip_prefix("TYPE="));
    let has_table = output.lines().any(|line| line.starts_with("PTTYPE=") && line.len() > "PTTYPE=".len());
    match found {
        // Do not trust a file system beside a partition table.
        Some(format) if !has_table => format.trim().to_owned(),
        Some(_) | None => PARTITIONED.to_owned(),
    }
}

fn check(device: &Path) -> Result<(), VolumeError> {
    let outcome = helper_program::run(OsStr::new("fsck"), &["-a".into(), device.into()], WRITER_TIMEOUT);
    match outcome.failure.as_deref() {
        Some(UNREPAIRABLE) => Err(VolumeError::Refused(format!(
            "'fsck' found errors on device {} but could not correct them: {}",
            device.display(),
            outcome.output.trim()
        ))),
        // Without a checker for this file system, the mount shows whether it is usable.
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
    let outcome = helper_program::run(OsStr::new(&program), &arguments, WRITER_TIMEOUT);
    let Some(failure) = outcome.failure else { return Ok(()) };
    let (device, output) = (device.display(), outcome.output.trim());
    Err(VolumeError::Refused(format!(
        "format of disk {device} failed: type:({fs_type:?}) errcode:({failure}) output:({output})"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_disk_format_like_upstream() {
        for (output, expected) in [
            ("DEVNAME=/dev/x\nTYPE=ext4\n", "ext4"),
            ("DEVNAME=/dev/x\nPTTYPE=dos\n", PARTITIONED),
            ("DEVNAME=/dev/x\nTYPE=ext4\nPTTYPE=\n", "ext4"),
        ] {
            assert_eq!(parse_format(output), expected, "{output}");
        }
    }
}
