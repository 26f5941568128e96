//! Checks, formats, mounts and grows the file system of a block device.

mod file_systems;

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use ports::host::pod_volumes::{VolumeError, VolumeStep};

use crate::helper_program::{self, Arguments};
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
    file_systems::check(disk.fs_type)?;
    check_device(device)?;
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
    let arguments = Arguments::default()
        .value("-t", disk.fs_type)
        .value("-o", options.join(","))
        .operands([device.into(), target.into()]);
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
    check_device(device)?;
    let none = Arguments::default();
    let (program, arguments) = match format_of(device)?.as_deref() {
        // The file system gets the full size when the disk is formatted.
        None => return Ok(()),
        Some("ext3" | "ext4") => ("resize2fs", none.operands([device.into()])),
        Some("xfs") => ("xfs_growfs", none.words(&["-d"]).operands([mounted.into()])),
        Some("btrfs") => ("btrfs", none.words(&["filesystem", "resize", "max"]).operand(mounted)),
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
    let arguments = Arguments::new(&options).operands([device.into()]);
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
    // fsck passes arguments after `--` to the checker of the file system; the path is absolute.
    let arguments = Arguments::new(&["-a"]).operand(device);
    let outcome = helper_program::run(OsStr::new("fsck"), &arguments, WRITER_TIMEOUT);
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
    let options: &[&str] = if matches!(fs_type, "ext3" | "ext4") { &["-F", "-m0"] } else { &[] };
    let arguments = Arguments::new(options).operands([device.into()]);
    let outcome = helper_program::run(OsStr::new(&program), &arguments, WRITER_TIMEOUT);
    let Some(failure) = outcome.failure else { return Ok(()) };
    let (device, output) = (device.display(), outcome.output.trim());
    Err(VolumeError::Refused(format!(
        "format of disk {device} failed: type:({fs_type:?}) errcode:({failure}) output:({output})"
    )))
}

/// A FlexVolume driver names the device in its response.
fn check_device(device: &Path) -> Result<(), VolumeError> {
    if device.is_absolute() {
        return Ok(());
    }
    Err(VolumeError::Refused(format!("device {:?} is not an absolute path", device.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_file_systems_and_devices_start_no_program() {
        let mount = |device: &str, fs_type: &str| {
            let disk = DiskMount { device: Path::new(device), fs_type, read_only: false, options: &[] };
            mount(&disk, Path::new("/nowhere"), OsStr::new("/bin/false")).unwrap_err().text()
        };
        for fs_type in
            ["", "-obind", "ext4 ", "ext4,xfs", "../../bin/sh", "x/y", "overlay", "EXT4", "nfs", "a\nb"]
        {
            let text = mount("/dev/null", fs_type);
            assert!(text.starts_with(&format!("file system {fs_type:?} of the disk is not known")), "{text}");
        }
        for device in ["", "-a", "--help", "dev/sda", "../dev/sda"] {
            assert_eq!(mount(device, "ext4"), format!("device {device:?} is not an absolute path"));
            assert!(grow(Path::new(device), Path::new("/nowhere")).is_err(), "{device}");
        }
    }

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
