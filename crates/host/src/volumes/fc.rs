//! Fibre Channel disks.
//!
//! A disk is mounted once for the node, below `plugins/kubernetes.io/fc` like upstream, and bind-mounted from there
//! into each pod; a raw device has a folder of links there instead. The folder is created first and its name identifies
//! the disk, so that a restarted agent can detach the disk when no pod uses it any more.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{FcDisk, FcName, PodUid, VolumeLabel};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{VolumeError, VolumeStep};

use super::shared_disk::{self, DiskFolders, DiskLocks, DiskState, NodeDisk, disk_folder, step_failed};
use super::{VolumeFolder, linked_device};
use crate::files::folder::Folder;
use crate::helper_program::{self, Arguments};
use crate::mount_table::table;
use crate::pods::pod_folders::make_pod;
use crate::volumes::scsi_disks::{ScsiDisks, wait_for};

const FOLDERS: DiskFolders = DiskFolders {
    mounts: "plugins/kubernetes.io/fc",
    devices: "plugins/kubernetes.io/fc/volumeDevices",
    plugin: "kubernetes.io~fc",
};
const LINKS_FOLDER: &str = "volumeDevices";
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct FibreChannel {
    pub(super) disks: ScsiDisks,
    pub(super) mount_program: OsString,
    pub(super) flush_program: OsString,
    /// How long a disk may take to appear after a rescan.
    pub(super) attach_timeout: Duration,
    locks: DiskLocks,
}

impl Default for FibreChannel {
    fn default() -> Self {
        Self {
            disks: ScsiDisks::default(),
            mount_program: "mount".into(),
            flush_program: "blockdev".into(),
            attach_timeout: Duration::from_secs(3),
            locks: DiskLocks::default(),
        }
    }
}

impl FibreChannel {
    /// Mounts a disk into a pod. `own` sets the pod's group when the disk is mounted for the first time.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume: &VolumeFolder,
        disk: &FcDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if !shared_disk::is_bound(volume)? {
            let Some(_lock) = self.locks.try_lock(&disk.name.folder()) else {
                return Err(VolumeError::InProgress);
            };
            let node_disk = NodeDisk {
                root,
                relative: Path::new(FOLDERS.mounts).join(disk.name.folder()),
                use_as: &disk.use_as,
                read_only: disk.read_only,
                label,
                attachment: &disk.attachment,
                mount_program: &self.mount_program,
            };
            shared_disk::bind(volume, &node_disk.mount(|_| self.find(&disk.name), own)?)?;
        }
        if disk.read_only { shared_disk::make_read_only(volume) } else { Ok(()) }
    }

    /// Links a disk into a pod as a raw device.
    pub(super) fn set_up_device(&self, root: &Path, uid: &PodUid, disk: &FcDisk) -> Result<(), VolumeError> {
        let pod = make_pod(root, uid)?;
        // Device names change with a reboot: keep the link only if it still refers to this disk.
        let linked = linked_device(&disk.path);
        if linked.is_some() && linked == self.current_device(&disk.name).map(DiskDevice::into_device) {
            return Ok(());
        }
        let Some(_lock) = self.locks.try_lock(&disk.name.folder()) else {
            return Err(VolumeError::InProgress);
        };
        let device = self.find(&disk.name)?;
        let map = disk_folder(root, &Path::new(FOLDERS.devices).join(disk.name.folder()))?;
        Ok(shared_disk::link(&map, uid, &pod, &disk.path, &device)?)
    }

    /// The device of a disk. Rescans the SCSI hosts unless a multipath device exists.
    fn find(&self, name: &FcName) -> Result<PathBuf, VolumeError> {
        if let Some(DiskDevice::Multipath(device)) = self.current_device(name) {
            return Ok(device);
        }
        self.disks.rescan();
        let found = wait_for(self.attach_timeout, || self.current_device(name));
        let missing = || step_failed(VolumeStep::WaitForAttach, "no fc disk found".to_owned());
        found.map(DiskDevice::into_device).ok_or_else(missing)
    }

    /// The device of a disk, if udev shows it.
    fn current_device(&self, name: &FcName) -> Option<DiskDevice> {
        let (folder, names): (PathBuf, Vec<String>) = match name {
            FcName::Targets { names, lun } => {
                (self.disks.by_path(), names.iter().map(|name| format!("-0x{name}-lun-{lun}")).collect())
            }
            FcName::Ids(ids) => (self.disks.by_id(), ids.iter().map(|id| format!("scsi-{id}")).collect()),
        };
        let entries = std::fs::read_dir(&folder).ok()?.filter_map(Result::ok);
        let mut entries: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        entries.sort();
        let mut single = None;
        for name_part in &names {
            let matches = |entry: &&String| match name {
                FcName::Targets { .. } => is_path_to(entry, name_part),
                FcName::Ids(_) => *entry == name_part,
            };
            let links = entries.iter().filter(matches);
            // Skip links to removed devices.
            let Some(device) = links.filter_map(|link| folder.join(link).canonicalize().ok()).next() else {
                continue;
            };
            match self.disks.multipath(&device) {
                Some(multipath) => return Some(DiskDevice::Multipath(multipath)),
                None => single = Some(DiskDevice::Single(device)),
            }
        }
        single
    }

    /// Unmounts and detaches disks that no pod uses. Skips locked disks.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        for base in [FOLDERS.mounts, FOLDERS.devices] {
            let Some(disks) = Folder::open(&root.join(base))? else { continue };
            for name in disks.folder_names()?.into_iter().filter(|name| name != LINKS_FOLDER) {
                self.sweep_disk(root, base, &disks, &name)?;
            }
            if base == FOLDERS.devices && disks.names()?.is_empty() {
                super::remove_if_empty(&root.join(FOLDERS.devices))?;
            }
        }
        Ok(())
    }

    fn sweep_disk(&self, root: &Path, base: &str, disks: &Folder, name: &OsStr) -> Result<(), VolumeError> {
        let text = name.to_string_lossy();
        let Some(_lock) = self.locks.try_lock(&text) else { return Ok(()) };
        if FOLDERS.release_unused(root, base, disks, name)? == DiskState::InUse {
            return Ok(());
        }
        let other = if base == FOLDERS.devices { FOLDERS.mounts } else { FOLDERS.devices };
        if let Some(disk) = FcName::of_folder(&text)
            && !root.join(other).join(name).exists()
        {
            self.detach(&disk).map_err(VolumeError::Refused)?;
        }
        Ok(disks.remove_empty(name)?)
    }

    /// Removes a disk from the kernel, unless it is mounted elsewhere.
    fn detach(&self, name: &FcName) -> Result<(), String> {
        let Some(found) = self.current_device(name) else { return Ok(()) };
        if is_mounted(found.device())? {
            return Ok(());
        }
        let paths = match &found {
            DiskDevice::Multipath(device) => {
                let paths = self.disks.paths_of(device);
                self.disks.flush_multipath(device)?;
                paths
            }
            DiskDevice::Single(device) => device.file_name().map(OsStr::to_os_string).into_iter().collect(),
        };
        for path in paths {
            let device = self.disks.devices.join(&path);
            // Best effort: data that cannot be flushed now is lost.
            let _ = helper_program::run(
                &self.flush_program,
                &Arguments::new(&["--flushbufs"]).operand(device),
                HELPER_TIMEOUT,
            );
            let _ = self.disks.delete(&path);
        }
        Ok(())
    }
}

/// The device of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DiskDevice {
    /// One path to the disk.
    Single(PathBuf),
    /// The device that combines all paths.
    Multipath(PathBuf),
}

impl DiskDevice {
    fn device(&self) -> &Path {
        let (Self::Single(device) | Self::Multipath(device)) = self;
        device
    }

    fn into_device(self) -> PathBuf {
        let (Self::Single(device) | Self::Multipath(device)) = self;
        device
    }
}

/// Whether a name below `by-path` is `fc-0x<target>-lun-<number>`, with or without the adapter as prefix.
fn is_path_to(entry: &str, suffix: &str) -> bool {
    let start = entry.strip_suffix(suffix);
    start.is_some_and(|start| start == "fc" || start.starts_with("pci-") && start.ends_with("-fc"))
}

fn is_mounted(device: &Path) -> Result<bool, String> {
    let found = std::fs::metadata(device).map_err(|error| format!("stat {}: {error}", device.display()))?;
    if !found.file_type().is_block_device() {
        return Ok(false);
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let table = table().map_err(|error| format!("{error}: {}", error.source))?;
    Ok(table.iter().any(|mount| mount.device == format!("{major}:{minor}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_names_below_by_path() {
        for (entry, expected) in [
            ("fc-0x5006-lun-0", true),
            ("pci-0000:01:00.0-fc-0x5006-lun-0", true),
            ("fc-0x5006-lun-01", false),
            ("fc-0x5006-lun-0-part1", false),
            ("xfc-0x5006-lun-0", false),
            ("ip-10.0.0.1-fc-0x5006-lun-0", false),
        ] {
            assert_eq!(is_path_to(entry, "-0x5006-lun-0"), expected, "{entry}");
        }
    }
}
