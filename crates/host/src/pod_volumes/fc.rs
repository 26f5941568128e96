//! Disks of a Fibre Channel network.
//!
//! A disk is mounted once for the node, below `plugins/kubernetes.io/fc` where upstream has it, and bound from there into
//! each pod; a device has a folder of links there instead. The name of that folder, made before anything else, says
//! which disk the kernel is to forget when no pod has it any more, also to an agent that comes later.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{DiskUse, FcDisk, FcName, PodUid, VolumeLabel};
use ports::pod_folders::FileError;
use ports::pod_volumes::{VolumeError, VolumeStep};

use super::shared_disk::{self, Busy, Use, Wanted, failed};
use super::{Volume, device_place};
use crate::disk::{self, Disk};
use crate::folder::Folder;
use crate::helper;
use crate::mount_table::table;
use crate::pod_folders::{PRIVATE, make_pod};
use crate::scsi_disks::ScsiDisks;

const PLACE: &str = "plugins/kubernetes.io/fc";
const LINKS: &str = "volumeDevices";
const DEVICES: &str = "plugins/kubernetes.io/fc/volumeDevices";
const PLUGIN: &str = "kubernetes.io~fc";
const HELPER_DEADLINE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What finds disks.
#[derive(Clone, Debug)]
pub(super) struct FibreChannel {
    pub(super) disks: ScsiDisks,
    pub(super) mount_program: OsString,
    pub(super) flush_program: OsString,
    /// How long a disk may take to show up after it was looked for.
    pub(super) patience: Duration,
    busy: Busy,
}

impl Default for FibreChannel {
    fn default() -> Self {
        Self {
            disks: ScsiDisks::default(),
            mount_program: "mount".into(),
            flush_program: "blockdev".into(),
            patience: Duration::from_secs(3),
            busy: Busy::default(),
        }
    }
}

impl FibreChannel {
    /// Brings a disk into a pod as files. `own` gives it to the pod's group when it is mounted for the first time.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume: &Volume,
        disk: &FcDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if !shared_disk::is_bound(volume)? {
            let Some(_turn) = self.busy.turn(&disk.name.folder()) else {
                return Err(VolumeError::InProgress);
            };
            let place = self.mount(root, disk, label, own)?;
            shared_disk::bind(volume, &place)?;
        }
        if disk.read_only { shared_disk::restrict(volume) } else { Ok(()) }
    }

    /// Brings a disk into a pod as a device.
    pub(super) fn set_up_device(&self, root: &Path, uid: &PodUid, disk: &FcDisk) -> Result<(), VolumeError> {
        let pod = make_pod(root, uid)?;
        // Names of devices change with the machine's start: one is kept only while it is this disk's.
        let linked = device_place(&disk.path);
        if linked.is_some() && linked == self.look(&disk.name).map(Found::into_device) {
            return Ok(());
        }
        let Some(_turn) = self.busy.turn(&disk.name.folder()) else { return Err(VolumeError::InProgress) };
        let device = self.find(&disk.name)?;
        let map = place(root, DEVICES, &disk.name)?;
        Ok(shared_disk::link(&map, uid, &pod, &disk.path, &device)?)
    }

    /// Mounts the disk for the node, unless that is done.
    fn mount(
        &self,
        root: &Path,
        disk: &FcDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<PathBuf, VolumeError> {
        let DiskUse::Files { fs_type, options } = &disk.use_as else {
            return Err(VolumeError::Refused("a device is not mounted".to_owned()));
        };
        let wanted = Wanted { options, label };
        let below = Path::new(PLACE).join(disk.name.folder());
        let is_mounted = shared_disk::is_mounted(root, &below, wanted, &disk.attachment)?;
        let folder = place(root, PLACE, &disk.name)?;
        let place = folder.real_path()?;
        if is_mounted {
            return Ok(place);
        }
        let mounted = self.find(&disk.name).and_then(|device| {
            let options = &wanted.mount_options();
            let found = Disk { device: &device, fs_type, read_only: disk.read_only, options };
            disk::mount(&found, &place, &self.mount_program)
                .map_err(|error| disk::not_mounted(&error, error.text()))
        });
        if let Err(error) = mounted {
            // The disk stays known, as upstream leaves it: the next try comes soon.
            super::remove_folder(root, &format!("{PLACE}/{}", disk.name.folder()))?;
            return Err(error);
        }
        let Some(mounted) = Folder::open(&place)? else {
            return Err(VolumeError::Refused(format!("{} is gone", place.display())));
        };
        own(&mounted)?;
        Ok(place)
    }

    /// The device of a disk. Unless all ways to it are one device already, the hosts are made to look for more.
    fn find(&self, name: &FcName) -> Result<PathBuf, VolumeError> {
        if let Some(Found::Joined(device)) = self.look(name) {
            return Ok(device);
        }
        self.disks.rescan();
        let began = Instant::now();
        loop {
            match self.look(name) {
                Some(found) => return Ok(found.into_device()),
                None if began.elapsed() >= self.patience => {
                    return Err(failed(VolumeStep::WaitForAttach, "no fc disk found".to_owned()));
                }
                None => look_again_later(),
            }
        }
    }

    /// The device of a disk, as far as it is known.
    fn look(&self, name: &FcName) -> Option<Found> {
        let (folder, wanted): (PathBuf, Vec<String>) = match name {
            FcName::Targets { names, lun } => {
                (self.disks.by_path(), names.iter().map(|name| format!("-0x{name}-lun-{lun}")).collect())
            }
            FcName::Ids(ids) => (self.disks.by_id(), ids.iter().map(|id| format!("scsi-{id}")).collect()),
        };
        let entries = std::fs::read_dir(&folder).ok()?.filter_map(Result::ok);
        let mut entries: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        entries.sort();
        let mut single = None;
        for wanted in &wanted {
            let is_it = |entry: &&String| match name {
                FcName::Targets { .. } => leads_to(entry, wanted),
                FcName::Ids(_) => *entry == wanted,
            };
            let links = entries.iter().filter(is_it);
            // A link to a device that went does not count.
            let Some(device) = links.filter_map(|link| folder.join(link).canonicalize().ok()).next() else {
                continue;
            };
            match self.disks.multipath(&device) {
                Some(joined) => return Some(Found::Joined(joined)),
                None => single = Some(Found::Single(device)),
            }
        }
        single
    }

    /// Lets go of disks that no pod has any more. Those that something is being done with are left alone.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        for base in [PLACE, DEVICES] {
            let Some(disks) = Folder::open(&root.join(base))? else { continue };
            for name in disks.folder_names()?.into_iter().filter(|name| name != LINKS) {
                self.sweep_disk(root, base, &disks, &name)?;
            }
            if base == DEVICES && disks.names()?.is_empty() {
                super::remove_folder(root, DEVICES)?;
            }
        }
        Ok(())
    }

    fn sweep_disk(&self, root: &Path, base: &str, disks: &Folder, name: &OsStr) -> Result<(), VolumeError> {
        let text = name.to_string_lossy();
        let Some(_turn) = self.busy.turn(&text) else { return Ok(()) };
        let found = if base == DEVICES {
            let Some(map) = disks.existing(name)? else { return Ok(()) };
            shared_disk::unlink_unused(root, &map, PLUGIN)?
        } else {
            shared_disk::unmount_unused(root, disks, name)?
        };
        if found == Use::InUse {
            return Ok(());
        }
        let other = if base == DEVICES { PLACE } else { DEVICES };
        if let Some(disk) = FcName::of_folder(&text)
            && !root.join(other).join(name).exists()
        {
            self.detach(&disk).map_err(VolumeError::Refused)?;
        }
        Ok(disks.remove_empty(name)?)
    }

    /// Makes the kernel forget a disk, unless somebody else has it mounted.
    fn detach(&self, name: &FcName) -> Result<(), String> {
        let Some(found) = self.look(name) else { return Ok(()) };
        if is_mounted(found.device())? {
            return Ok(());
        }
        let ways = match &found {
            Found::Joined(device) => {
                let ways = self.disks.ways(device);
                self.disks.flush_multipath(device)?;
                ways
            }
            Found::Single(device) => device.file_name().map(OsStr::to_os_string).into_iter().collect(),
        };
        for way in ways {
            let device = self.disks.devices.join(&way);
            // What was not written by now will not be later either.
            let _ = helper::run(&self.flush_program, &["--flushbufs".into(), device.into()], HELPER_DEADLINE);
            let _ = self.disks.delete(&way);
        }
        Ok(())
    }
}

/// What was found of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// One way to it.
    Single(PathBuf),
    /// The device that stands for all ways.
    Joined(PathBuf),
}

impl Found {
    fn device(&self) -> &Path {
        let (Self::Single(device) | Self::Joined(device)) = self;
        device
    }

    fn into_device(self) -> PathBuf {
        let (Self::Single(device) | Self::Joined(device)) = self;
        device
    }
}

/// The folder of a disk.
fn place(root: &Path, base: &str, name: &FcName) -> Result<Folder, FileError> {
    Folder::make(root, PRIVATE)?.make_below(Path::new(base).join(name.folder()), PRIVATE)
}

/// Whether a name below `by-path` is `fc-0x<target>-lun-<number>`, with or without the adapter before it.
fn leads_to(entry: &str, wanted: &str) -> bool {
    let start = entry.strip_suffix(wanted);
    start.is_some_and(|start| start == "fc" || start.starts_with("pci-") && start.ends_with("-fc"))
}

fn is_mounted(device: &Path) -> Result<bool, String> {
    let found =
        std::fs::metadata(device).map_err(|error| format!("look at {}: {error}", device.display()))?;
    if !found.file_type().is_block_device() {
        return Ok(false);
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let table = table().map_err(|error| format!("{error}: {}", error.source))?;
    Ok(table.iter().any(|mount| mount.device == format!("{major}:{minor}")))
}

#[expect(clippy::disallowed_methods, reason = "volumes are set up on threads that may block")]
fn look_again_later() {
    std::thread::sleep(LOOK_AGAIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_known_by_the_ways_to_them() {
        for (entry, expected) in [
            ("fc-0x5006-lun-0", true),
            ("pci-0000:01:00.0-fc-0x5006-lun-0", true),
            ("fc-0x5006-lun-01", false),
            ("fc-0x5006-lun-0-part1", false),
            ("xfc-0x5006-lun-0", false),
            ("ip-10.0.0.1-fc-0x5006-lun-0", false),
        ] {
            assert_eq!(leads_to(entry, "-0x5006-lun-0"), expected, "{entry}");
        }
    }
}
