//! Disks as the kernel and udev show them: SCSI hosts, sessions with iSCSI targets, several ways to one disk.

mod sessions;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::helper;

const HELPER_DEADLINE: Duration = Duration::from_secs(30);
/// Names of devices that stand for several others.
const MAPPED: &str = "dm-";

/// Where disks are shown, and who takes them apart.
#[derive(Clone, Debug)]
pub(crate) struct ScsiDisks {
    /// Such as `/dev`.
    pub(crate) devices: PathBuf,
    /// Such as `/sys`.
    pub(crate) kernel: PathBuf,
    pub(crate) multipath_program: OsString,
}

impl Default for ScsiDisks {
    fn default() -> Self {
        Self { devices: "/dev".into(), kernel: "/sys".into(), multipath_program: "multipath".into() }
    }
}

impl ScsiDisks {
    /// Where devices have names by the way that leads to them.
    pub(crate) fn by_path(&self) -> PathBuf {
        self.devices.join("disk/by-path")
    }

    /// Where devices have names by what they are.
    pub(crate) fn by_id(&self) -> PathBuf {
        self.devices.join("disk/by-id")
    }

    /// The device that stands for all ways to the disk of this one.
    pub(crate) fn multipath(&self, device: &Path) -> Option<PathBuf> {
        let found = device.canonicalize().ok()?;
        let disk = found.file_name()?;
        if starts_with(disk, MAPPED) {
            return Some(self.devices.join(disk));
        }
        let blocks = self.kernel.join("block");
        let mut mapped = names(&blocks).into_iter().filter(|name| starts_with(name, MAPPED));
        let is_over =
            |name: &OsString| blocks.join(name).join("slaves").join(disk).symlink_metadata().is_ok();
        mapped.find(is_over).map(|name| self.devices.join(name))
    }

    /// The devices beneath one that stands for several.
    pub(crate) fn ways(&self, mapped: &Path) -> Vec<OsString> {
        let Some(name) = mapped.file_name() else { return Vec::new() };
        names(&self.kernel.join("block").join(name).join("slaves"))
    }

    /// Takes a device that stands for several apart.
    pub(crate) fn flush_multipath(&self, mapped: &Path) -> Result<(), String> {
        let ended = helper::run(&self.multipath_program, &["-f".into(), mapped.into()], HELPER_DEADLINE);
        match ended.failure {
            None => Ok(()),
            Some(failure) => Err(format!(
                "failed to flush multipath device {}: {failure}\n{}",
                mapped.display(),
                ended.output.trim_end()
            )),
        }
    }

    /// Makes the kernel forget a device; one that is gone is forgotten.
    pub(crate) fn delete(&self, disk: &OsStr) -> io::Result<()> {
        match write(&self.kernel.join("block").join(disk).join("device/delete"), "1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Makes all hosts look for disks; one that cannot look finds none.
    pub(crate) fn rescan(&self) {
        let hosts = self.kernel.join("class/scsi_host");
        for host in names(&hosts) {
            let _ = write(&hosts.join(host).join("scan"), "- - -");
        }
    }

    /// Looks for one disk only: others of the target are nobody's here, and would go unnoticed one day.
    pub(crate) fn scan_for(&self, host: u32, lun: i32) -> io::Result<()> {
        write(&self.kernel.join(format!("class/scsi_host/host{host}/scan")), &format!("0 0 {lun}"))
    }
}

/// The entries of a folder in their order; one that cannot be read has none.
fn names(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<OsString> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

fn starts_with(name: &OsStr, start: &str) -> bool {
    name.as_encoded_bytes().starts_with(start.as_bytes())
}

/// Tells the kernel; never makes a file.
fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}
