//! Disks of iSCSI targets, by the host's `iscsiadm`, `mkfs` and `mount`.
//!
//! A disk is mounted once for the node, below `plugins/kubernetes.io/iscsi` where upstream has it, and bound from there
//! into each pod; a device has a folder of links there instead. Beneath that mount, or beside those links, lies
//! `iscsi.json`, written before the login: it says what to log out of, also to an agent that comes later.

mod session;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{DiskUse, IscsiDisk, PodUid, VolumeLabel};
use ports::pod_folders::FileError;
use ports::pod_volumes::{VolumeError, VolumeStep};

use super::shared_disk::{self, Busy, Use, Wanted, failed};
use super::{Volume, device_place};
use crate::disk::{self, Disk};
use crate::folder::Folder;
use crate::pod_folders::{PRIVATE, make_pod};
use crate::scsi_disks::ScsiDisks;
use crate::{atomic_file, tree};
use session::{Login, Tools};

const PLACE: &str = "plugins/kubernetes.io/iscsi";
const DEVICES: &str = "plugins/kubernetes.io/iscsi/volumeDevices";
const PLUGIN: &str = "kubernetes.io~iscsi";
const RECORD: &str = "iscsi.json";

/// What talks to targets.
#[derive(Clone, Debug)]
pub(super) struct Initiator {
    pub(super) program: OsString,
    pub(super) mount_program: OsString,
    /// Where disks show up.
    pub(super) disks: ScsiDisks,
    /// How long a device may take to show up after the login.
    pub(super) patience: Duration,
    /// Targets that something is being done with.
    busy: Busy,
}

impl Default for Initiator {
    fn default() -> Self {
        Self {
            program: "iscsiadm".into(),
            mount_program: "mount".into(),
            disks: ScsiDisks::default(),
            patience: Duration::from_secs(10),
            busy: Busy::default(),
        }
    }
}

impl Initiator {
    /// Brings a disk into a pod as files. `own` gives it to the pod's group when it is mounted for the first time.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume: &Volume,
        disk: &IscsiDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if !shared_disk::is_bound(volume)? {
            let mounted = self.alone_with(root, disk, || {
                let place = self.mount(root, disk, label, own)?;
                shared_disk::bind(volume, &place)
            });
            mounted?;
        }
        if disk.read_only { shared_disk::restrict(volume) } else { Ok(()) }
    }

    /// Brings a disk into a pod as a device.
    pub(super) fn set_up_device(
        &self,
        root: &Path,
        uid: &PodUid,
        disk: &IscsiDisk,
    ) -> Result<(), VolumeError> {
        let pod = make_pod(root, uid)?;
        // Names of devices change with the machine's start: one is kept only while it is this disk's.
        if device_place(&disk.path).is_some_and(|device| self.is_current(disk, &device)) {
            return Ok(());
        }
        self.alone_with(root, disk, || {
            let map = Self::place(root, DEVICES, disk)?;
            let device = self.attach(&map, disk)?;
            Ok(shared_disk::link(&map, uid, &pod, &disk.path, &device)?)
        })
    }

    /// Does something while nobody else works with the target; what was begun and failed is undone.
    fn alone_with(
        &self,
        root: &Path,
        disk: &IscsiDisk,
        work: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Some(turn) = self.busy.turn(&disk.target) else { return Err(VolumeError::InProgress) };
        let done = work();
        drop(turn);
        if done.is_err() {
            // That this failed too would hide the cause.
            let _ = self.sweep(root);
        }
        done
    }

    /// Whether the kernel shows a device as this disk.
    fn is_current(&self, disk: &IscsiDisk, device: &Path) -> bool {
        self.disks.disks(&disk.target, disk.lun).iter().any(|name| {
            let way = self.disks.devices.join(name);
            way.canonicalize().is_ok_and(|way| way == device)
                || self.disks.multipath(&way).is_some_and(|joined| joined == device)
        })
    }

    /// Mounts the disk for the node, unless that is done.
    fn mount(
        &self,
        root: &Path,
        disk: &IscsiDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<PathBuf, VolumeError> {
        let DiskUse::Files { fs_type, options } = &disk.use_as else {
            return Err(VolumeError::Refused("a device is not mounted".to_owned()));
        };
        let wanted = Wanted { options, label };
        let is_mounted = shared_disk::is_mounted(root, &Self::below(PLACE, disk), wanted, &disk.attachment)?;
        let folder = Self::place(root, PLACE, disk)?;
        let place = folder.real_path()?;
        if is_mounted {
            return Ok(place);
        }
        let device = self.attach(&folder, disk)?;
        let options = &wanted.mount_options();
        let found = Disk { device: &device, fs_type, read_only: disk.read_only, options };
        disk::mount(&found, &place, &self.mount_program)
            .map_err(|error| disk::not_mounted(&error, error.text()))?;
        let Some(mounted) = Folder::open(&place)? else {
            return Err(VolumeError::Refused(format!("{} is gone", place.display())));
        };
        own(&mounted)?;
        Ok(place)
    }

    /// The folder of a disk.
    fn place(root: &Path, base: &str, disk: &IscsiDisk) -> Result<Folder, FileError> {
        Folder::make(root, PRIVATE)?.make_below(Self::below(base, disk), PRIVATE)
    }

    fn below(base: &str, disk: &IscsiDisk) -> PathBuf {
        let portal = disk.portals.first().map_or("", String::as_str);
        let name = format!("{portal}-{}-lun-{}", disk.target, disk.lun);
        Path::new(base).join(format!("iface-{}", disk.interface)).join(name)
    }

    /// Logs in; what has to be undone is written down before.
    fn attach(&self, folder: &Folder, disk: &IscsiDisk) -> Result<PathBuf, VolumeError> {
        let login = Login::of(disk);
        atomic_file::write(folder, OsStr::new(RECORD), &login.write(), 0o600)?;
        let tools = Tools { program: &self.program, disks: &self.disks, patience: self.patience };
        login.log_in(&tools, &disk.chap).map_err(|reason| failed(VolumeStep::WaitForAttach, reason))
    }

    /// Lets go of disks that no pod has any more, and logs out of targets without a disk in use. Targets that something
    /// is being done with are left alone.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        for base in [PLACE, DEVICES] {
            let Some(interfaces) = Folder::open(&root.join(base))? else { continue };
            for interface in interface_names(&interfaces)? {
                let Some(disks) = interfaces.existing(&interface)? else { continue };
                for name in disks.folder_names()? {
                    self.sweep_disk(root, base, &disks, &name)?;
                }
                if disks.names()?.is_empty() {
                    interfaces.remove_empty(&interface)?;
                }
            }
            if base == DEVICES && interfaces.names()?.is_empty() {
                super::remove_folder(root, DEVICES)?;
            }
        }
        Ok(())
    }

    fn sweep_disk(&self, root: &Path, base: &str, disks: &Folder, name: &OsStr) -> Result<(), VolumeError> {
        let text = name.to_string_lossy();
        let is_busy = |target: &String| text.contains(&format!("-{target}-lun-"));
        if self.busy.names().iter().any(is_busy) {
            return Ok(());
        }
        let found = if base == DEVICES {
            let Some(map) = disks.existing(name)? else { return Ok(()) };
            shared_disk::unlink_unused(root, &map, PLUGIN)?
        } else {
            shared_disk::unmount_unused(root, disks, name)?
        };
        let (Some(folder), Use::Unused) = (disks.existing(name)?, found) else { return Ok(()) };
        let record = crate::state_files::read(folder.path(), OsStr::new(RECORD))?;
        if let Some(login) = record.as_deref().and_then(Login::read) {
            let Some(_turn) = self.busy.turn(&login.target) else { return Ok(()) };
            self.detach(root, &login, &disks.path().join(name))?;
        }
        tree::remove(&folder, OsStr::new(RECORD))?;
        Ok(disks.remove_empty(name)?)
    }

    /// Makes the kernel forget a disk, and logs out with the last one of its target.
    fn detach(&self, root: &Path, login: &Login, own: &Path) -> Result<(), VolumeError> {
        let others = other_disks(root, own)?;
        let target = format!("-{}-lun-", login.target);
        if !others.iter().any(|other| other.ends_with(&format!("{target}{}", login.lun))) {
            let disks = self.disks.disks(&login.target, login.lun);
            let joined: BTreeSet<PathBuf> = disks
                .iter()
                .filter_map(|name| self.disks.multipath(&self.disks.devices.join(name)))
                .collect();
            // What stays goes with the session, and a session that stays is told of.
            for device in joined {
                let _ = self.disks.flush_multipath(&device);
            }
            for name in disks {
                let _ = self.disks.delete(&name);
            }
        }
        if others.iter().any(|other| other.contains(&target)) {
            return Ok(());
        }
        login.log_out(&self.program).map_err(VolumeError::Refused)
    }
}

fn interface_names(folder: &Folder) -> Result<Vec<OsString>, FileError> {
    let names = folder.folder_names()?.into_iter();
    Ok(names.filter(|name| name.as_encoded_bytes().starts_with(b"iface-")).collect())
}

/// The names of all disks but one, by any interface, as files or devices.
fn other_disks(root: &Path, own: &Path) -> Result<Vec<String>, FileError> {
    let mut found = Vec::new();
    for base in [PLACE, DEVICES] {
        let Some(interfaces) = Folder::open(&root.join(base))? else { continue };
        for interface in interface_names(&interfaces)? {
            let Some(disks) = interfaces.existing(&interface)? else { continue };
            let names = disks.folder_names()?.into_iter().filter(|name| disks.path().join(name) != own);
            found.extend(names.map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}
