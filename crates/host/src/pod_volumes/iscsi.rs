//! Disks of iSCSI targets, by the host's `iscsiadm`, `mkfs` and `mount`.
//!
//! A disk is mounted once for the node, below `plugins/kubernetes.io/iscsi` where upstream has it, and bound from there
//! into each pod. Beneath that mount lies `iscsi.json`, written before the login: it says what to log out of, also to an
//! agent that comes later.

mod session;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use model::IscsiDisk;
use ports::pod_folders::FileError;
use ports::pod_volumes::VolumeError;
use rustix::mount::MountFlags;

use super::Volume;
use crate::disk::{self, Disk};
use crate::failure::OnPath;
use crate::folder::Folder;
use crate::mount_table::{self, mounted_at, table};
use crate::pod_folders::PRIVATE;
use crate::{atomic_file, tree};
use session::Login;

const PLACE: &str = "plugins/kubernetes.io/iscsi";
const RECORD: &str = "iscsi.json";

/// What talks to targets.
#[derive(Clone, Debug)]
pub(super) struct Initiator {
    pub(super) program: OsString,
    pub(super) mount_program: OsString,
    /// Where devices have names by their targets.
    pub(super) devices: PathBuf,
    /// Targets that something is being done with.
    busy: Arc<Mutex<BTreeSet<String>>>,
}

impl Default for Initiator {
    fn default() -> Self {
        Self {
            program: "iscsiadm".into(),
            mount_program: "mount".into(),
            devices: "/dev/disk/by-path".into(),
            busy: Arc::default(),
        }
    }
}

/// The right to work with a target, until it is dropped.
struct Turn<'a> {
    initiator: &'a Initiator,
    target: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.initiator.busy().remove(self.target);
    }
}

impl Initiator {
    /// Brings a disk into a pod. `own` gives it to the pod's group when it is mounted for the first time.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume: &Volume,
        disk: &IscsiDisk,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        let target = volume.parent.real_path()?.join(&volume.name);
        if mounted_at(&table()?, &target).is_none() {
            let Some(turn) = self.turn(&disk.target) else { return Err(VolumeError::InProgress) };
            let attached = self.attach(root, disk, own);
            let bound = attached.and_then(|place| bind(volume, &place, &target));
            drop(turn);
            if let Err(error) = bound {
                // What was begun is undone; that this failed too would hide the cause.
                let _ = self.sweep(root);
                return Err(error);
            }
        }
        if disk.read_only {
            let at = volume.parent.magic_path().join(&volume.name);
            rustix::mount::mount_remount(&at, MountFlags::BIND | MountFlags::RDONLY, c"")
                .on_path("mount read-only", &target)?;
        }
        Ok(())
    }

    /// Logs in and mounts the disk for the node, unless that is done.
    fn attach(
        &self,
        root: &Path,
        disk: &IscsiDisk,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<PathBuf, VolumeError> {
        let portal = disk.portals.first().map_or("", String::as_str);
        let name = format!("{portal}-{}-lun-{}", disk.target, disk.lun);
        let below = Path::new(PLACE).join(format!("iface-{}", disk.interface)).join(name);
        let folder = Folder::make(root, PRIVATE)?.make_below(&below, PRIVATE)?;
        let place = folder.real_path()?;
        if mounted_at(&table()?, &place).is_some() {
            return Ok(place);
        }
        let login = Login::of(disk);
        atomic_file::write(&folder, OsStr::new(RECORD), &login.write(), 0o600)?;
        login.log_in(&self.program)?;
        let device = login.wait_for_device(&self.devices, disk.lun)?;
        let IscsiDisk { fs_type, read_only, options, .. } = disk;
        let found = Disk { device: &device, fs_type, read_only: *read_only, options };
        disk::mount(&found, &place, &self.mount_program)?;
        let Some(mounted) = Folder::open(&place)? else {
            return Err(VolumeError::Refused(format!("{} is gone", place.display())));
        };
        own(&mounted)?;
        Ok(place)
    }

    /// Unmounts disks that no pod has any more, and logs out of targets without a disk in use. Targets that something is
    /// being done with are left alone.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        let Some(interfaces) = Folder::open(&root.join(PLACE))? else { return Ok(()) };
        for interface in interfaces.folder_names()? {
            let Some(disks) = interfaces.existing(&interface)? else { continue };
            for name in disks.folder_names()? {
                self.sweep_disk(root, &disks, &name)?;
            }
            if disks.names()?.is_empty() {
                interfaces.remove_empty(&interface)?;
            }
        }
        Ok(())
    }

    fn sweep_disk(&self, root: &Path, disks: &Folder, name: &OsStr) -> Result<(), VolumeError> {
        let text = name.to_string_lossy();
        let is_busy = |target: &String| text.contains(&format!("-{target}-lun-"));
        if self.busy().iter().any(is_busy) {
            return Ok(());
        }
        let place = disks.real_path()?.join(name);
        let pods = root.canonicalize().on_path("resolve folder", root)?.join("pods");
        let table = table()?;
        if let Some(mount) = mounted_at(&table, &place) {
            let in_use =
                mount_table::at_or_below(&table, &pods).iter().any(|other| other.device == mount.device);
            if in_use {
                return Ok(());
            }
            super::tear_down::unmount(disks, Path::new(name))?;
        }
        let Some(folder) = disks.existing(name)? else { return Ok(()) };
        let record = crate::state_files::read(folder.path(), OsStr::new(RECORD))?;
        if let Some(login) = record.as_deref().and_then(Login::read) {
            let Some(_turn) = self.turn(&login.target) else { return Ok(()) };
            if !has_other_disk(disks, name, &login.target)? {
                login.log_out(&self.program)?;
            }
        }
        tree::remove(&folder, OsStr::new(RECORD))?;
        Ok(disks.remove_empty(name)?)
    }

    fn turn<'a>(&'a self, target: &'a str) -> Option<Turn<'a>> {
        self.busy().insert(target.to_owned()).then_some(Turn { initiator: self, target })
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_other_disk(disks: &Folder, name: &OsStr, target: &str) -> Result<bool, FileError> {
    let part = format!("-{target}-lun-");
    let others = disks.folder_names()?;
    Ok(others.iter().any(|other| other != name && other.to_string_lossy().contains(&part)))
}

fn bind(volume: &Volume, place: &Path, target: &Path) -> Result<(), VolumeError> {
    let Some(source) = Folder::open(place)? else {
        return Err(VolumeError::Refused(format!("{} is gone", place.display())));
    };
    volume.parent.make_below(&volume.name, PRIVATE)?;
    volume.note_mount("bind")?;
    let at = volume.parent.magic_path().join(&volume.name);
    Ok(rustix::mount::mount_bind(source.magic_path(), at).on_path("bind to", target)?)
}
