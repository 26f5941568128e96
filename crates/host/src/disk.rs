//! A device becomes a mounted file system.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ports::pod_volumes::{VolumeError, VolumeStep};

use crate::{helper, mount_program};

/// Large disks take their time.
const HELPER_DEADLINE: Duration = Duration::from_secs(100);
/// Whoever is killed while it writes leaves a broken disk behind: those that mend or format one have as long as they need.
/// The pod is told after two minutes that it waits, and its turn stays taken.
const WRITER_DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);
const TABLE: &str = "unknown data, probably partitions";
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
        place.into(),
    ];
    let mounted = mount_program::run(program, &arguments, HELPER_DEADLINE);
    match found {
        Some(found) if found != disk.fs_type => {
            mounted.map_err(|error| VolumeError::OtherFileSystem(error.text()))
        }
        Some(_) | None => mounted,
    }
}

/// A failure to mount for the node.
pub(crate) fn not_mounted(error: &VolumeError, reason: String) -> VolumeError {
    match error {
        VolumeError::OtherFileSystem(_) => VolumeError::OtherFileSystem(reason),
        _ => VolumeError::Step { step: VolumeStep::MountDevice, reason },
    }
}

/// Lets a mounted file system have all of its disk, which may have grown.
pub(crate) fn grow(device: &Path, mounted: &Path) -> Result<(), VolumeError> {
    let (program, arguments): (&str, Vec<OsString>) = match format_of(device)?.as_deref() {
        // It gets all of the disk when it is made.
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
    let ended = helper::run(OsStr::new(program), &arguments, WRITER_DEADLINE);
    let subject = if program == "resize2fs" { device } else { mounted };
    match ended.failure {
        None => Ok(()),
        Some(failure) => Err(VolumeError::Refused(format!(
            "resize of device {} failed: {failure}. {program} output: {}",
            subject.display(),
            ended.output
        ))),
    }
}

/// The file system on a disk, or that it has a table of partitions. Who cannot tell must not format.
fn format_of(device: &Path) -> Result<Option<String>, VolumeError> {
    let words = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"];
    let arguments: Vec<OsString> = words.iter().map(OsString::from).chain([device.into()]).collect();
    let ended = helper::run(OsStr::new("blkid"), &arguments, HELPER_DEADLINE);
    match ended.failure.as_deref() {
        None => Ok(Some(read_format(&ended.output))),
        Some(EMPTY) => Ok(None),
        Some(failure) => Err(VolumeError::Refused(format!(
            "what disk {} holds cannot be told: blkid: {failure}: {}",
            device.display(),
            ended.output.trim()
        ))),
    }
}

fn read_format(output: &str) -> String {
    let found = output.lines().find_map(|line| line.strip_prefix("TYPE="));
    let has_table = output.lines().any(|line| line.starts_with("PTTYPE=") && line.len() > "PTTYPE=".len());
    match found {
        // A table of partitions beside a file system: better not to trust it.
        Some(format) if !has_table => format.trim().to_owned(),
        Some(_) | None => TABLE.to_owned(),
    }
}

fn check(device: &Path) -> Result<(), VolumeError> {
    let ended = helper::run(OsStr::new("fsck"), &["-a".into(), device.into()], WRITER_DEADLINE);
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
    let ended = helper::run(OsStr::new(&program), &arguments, WRITER_DEADLINE);
    match ended.failure {
        None => Ok(()),
        Some(failure) => Err(VolumeError::Refused(format!(
            "format of disk {} failed: type:({fs_type:?}) errcode:({failure}) output:({})",
            device.display(),
            ended.output.trim()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_disk_holds_is_read_as_upstream_reads_it() {
        for (output, expected) in [
            ("DEVNAME=/dev/x\nTYPE=ext4\n", "ext4"),
            ("DEVNAME=/dev/x\nPTTYPE=dos\n", TABLE),
            ("DEVNAME=/dev/x\nTYPE=ext4\nPTTYPE=\n", "ext4"),
        ] {
            assert_eq!(read_format(output), expected, "{output}");
        }
    }
}
