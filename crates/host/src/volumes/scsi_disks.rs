//! SCSI disks in `/sys` and `/dev`: hosts, iSCSI sessions and multipath devices.

mod sessions;

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::errors::IfExists;
use crate::helper_program::{self, Arguments};

const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Name prefix of device-mapper devices.
const DEVICE_MAPPER: &str = "dm-";

#[derive(Clone, Debug)]
pub(crate) struct ScsiDisks {
    /// Usually `/dev`.
    pub(crate) devices: PathBuf,
    /// Usually `/sys`.
    pub(crate) kernel: PathBuf,
    pub(crate) multipath_program: OsString,
}

impl Default for ScsiDisks {
    fn default() -> Self {
        Self { devices: "/dev".into(), kernel: "/sys".into(), multipath_program: "multipath".into() }
    }
}

impl ScsiDisks {
    pub(crate) fn by_path(&self) -> PathBuf {
        self.devices.join("disk/by-path")
    }

    pub(crate) fn by_id(&self) -> PathBuf {
        self.devices.join("disk/by-id")
    }

    /// The multipath device of a disk, given one of its paths.
    pub(crate) fn multipath(&self, device: &Path) -> Option<PathBuf> {
        let found = device.canonicalize().ok()?;
        let disk = found.file_name()?;
        if starts_with(disk, DEVICE_MAPPER) {
            return Some(self.devices.join(disk));
        }
        let blocks = self.kernel.join("block");
        let mut mapped = names(&blocks).into_iter().filter(|name| starts_with(name, DEVICE_MAPPER));
        let contains_disk =
            |name: &OsString| blocks.join(name).join("slaves").join(disk).symlink_metadata().is_ok();
        mapped.find(contains_disk).map(|name| self.devices.join(name))
    }

    /// The names of the devices that a multipath device combines.
    pub(crate) fn paths_of(&self, mapped: &Path) -> Vec<OsString> {
        let Some(name) = mapped.file_name() else { return Vec::new() };
        names(&self.kernel.join("block").join(name).join("slaves"))
    }

    /// Removes a multipath device.
    pub(crate) fn flush_multipath(&self, mapped: &Path) -> Result<(), String> {
        let arguments = Arguments::new(&["-f"]).operands([mapped.into()]);
        let outcome = helper_program::run(&self.multipath_program, &arguments, HELPER_TIMEOUT);
        match outcome.failure {
            None => Ok(()),
            Some(failure) => Err(format!(
                "failed to flush multipath device {}: {failure}\n{}",
                mapped.display(),
                outcome.output.trim_end()
            )),
        }
    }

    /// Removes a device from the kernel. Succeeds if it does not exist.
    pub(crate) fn delete(&self, disk: &OsStr) -> io::Result<()> {
        let delete = self.kernel.join("block").join(disk).join("device/delete");
        write(&delete, "1").if_exists().map(drop)
    }

    /// Rescans all SCSI hosts, best effort.
    pub(crate) fn rescan(&self) {
        let hosts = self.kernel.join("class/scsi_host");
        for host in names(&hosts) {
            let _ = write(&hosts.join(host).join("scan"), "- - -");
        }
    }

    /// Scans for one LUN only: other disks of the target are not used on this node and would never be detached.
    pub(crate) fn scan_for(&self, host: u32, lun: i32) -> io::Result<()> {
        write(&self.kernel.join(format!("class/scsi_host/host{host}/scan")), &format!("0 0 {lun}"))
    }
}

/// Polls until `find` returns a value or the timeout has passed; at least once.
#[expect(clippy::disallowed_methods, reason = "volumes are set up on threads that may block")]
pub(crate) fn wait_for<T>(timeout: Duration, find: impl Fn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match find() {
            None if start.elapsed() < timeout => std::thread::sleep(POLL_INTERVAL),
            found => return found,
        }
    }
}

/// The sorted entries of a folder; empty if it cannot be read.
fn names(folder: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<OsString> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

fn starts_with(name: &OsStr, start: &str) -> bool {
    name.as_encoded_bytes().starts_with(start.as_bytes())
}

/// Writes to an existing file.
fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}
