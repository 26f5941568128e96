//! iSCSI disks, through the host's `iscsiadm`, `mkfs` and `mount`.
//!
//! A disk is mounted once for the node, below `plugins/kubernetes.io/iscsi` like upstream, and bind-mounted from there
//! into each pod; a raw device has a folder of links there instead. The file `iscsi.json`, beneath that mount or beside
//! those links, is written before the login, so that a restarted agent can log out.

mod session;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{IscsiDisk, PodUid, VolumeLabel};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{VolumeError, VolumeStep};

use super::shared_disk::{self, DiskFolders, DiskLocks, DiskState, NodeDisk, disk_folder, step_failed};
use super::{VolumeFolder, linked_device};
use crate::files::atomic_file;
use crate::files::folder::Folder;
use crate::files::tree;
use crate::pods::pod_folders::make_pod;
use crate::volumes::scsi_disks::ScsiDisks;
use session::Login;

const FOLDERS: DiskFolders = DiskFolders {
    mounts: "plugins/kubernetes.io/iscsi",
    devices: "plugins/kubernetes.io/iscsi/volumeDevices",
    plugin: "kubernetes.io~iscsi",
};
const RECORD: &str = "iscsi.json";

#[derive(Clone, Debug)]
pub(super) struct Initiator {
    pub(super) program: OsString,
    pub(super) mount_program: OsString,
    pub(super) disks: ScsiDisks,
    /// How long a device may take to appear after the login.
    pub(super) attach_timeout: Duration,
    /// Locks of targets.
    locks: DiskLocks,
}

impl Default for Initiator {
    fn default() -> Self {
        Self {
            program: "iscsiadm".into(),
            mount_program: "mount".into(),
            disks: ScsiDisks::default(),
            attach_timeout: Duration::from_secs(10),
            locks: DiskLocks::default(),
        }
    }
}

impl Initiator {
    /// Mounts a disk into a pod. `own` sets the pod's group when the disk is mounted for the first time.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume: &VolumeFolder,
        disk: &IscsiDisk,
        label: &VolumeLabel,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if !shared_disk::is_bound(volume)? {
            let mounted = self.with_target_locked(root, disk, || {
                let node_disk = NodeDisk {
                    root,
                    relative: Self::relative_folder(FOLDERS.mounts, disk),
                    use_as: &disk.use_as,
                    read_only: disk.read_only,
                    label,
                    attachment: &disk.attachment,
                    mount_program: &self.mount_program,
                };
                shared_disk::bind(volume, &node_disk.mount(|folder| self.attach(folder, disk), own)?)
            });
            mounted?;
        }
        if disk.read_only { shared_disk::make_read_only(volume) } else { Ok(()) }
    }

    /// Links a disk into a pod as a raw device.
    pub(super) fn set_up_device(
        &self,
        root: &Path,
        uid: &PodUid,
        disk: &IscsiDisk,
    ) -> Result<(), VolumeError> {
        let pod = make_pod(root, uid)?;
        // Device names change with a reboot: keep the link only if it still refers to this disk.
        if linked_device(&disk.path).is_some_and(|device| self.is_current(disk, &device)) {
            return Ok(());
        }
        self.with_target_locked(root, disk, || {
            let map = disk_folder(root, &Self::relative_folder(FOLDERS.devices, disk))?;
            let device = self.attach(&map, disk)?;
            Ok(shared_disk::link(&map, uid, &pod, &disk.path, &device)?)
        })
    }

    /// Runs `work` with the target locked. If it fails, undoes what it began.
    fn with_target_locked(
        &self,
        root: &Path,
        disk: &IscsiDisk,
        work: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Some(lock) = self.locks.try_lock(&disk.target) else { return Err(VolumeError::InProgress) };
        let result = work();
        drop(lock);
        if result.is_err() {
            // A failure here would hide the cause.
            let _ = self.sweep(root);
        }
        result
    }

    /// Whether the device is this disk.
    fn is_current(&self, disk: &IscsiDisk, device: &Path) -> bool {
        self.disks.disks(&disk.target, disk.lun).iter().any(|name| {
            let path = self.disks.devices.join(name);
            path.canonicalize().is_ok_and(|path| path == device)
                || self.disks.multipath(&path).is_some_and(|multipath| multipath == device)
        })
    }

    fn relative_folder(base: &str, disk: &IscsiDisk) -> PathBuf {
        let portal = disk.portals.first().map_or("", String::as_str);
        let name = format!("{portal}-{}-lun-{}", disk.target, disk.lun);
        Path::new(base).join(format!("iface-{}", disk.interface)).join(name)
    }

    /// Writes the record for the logout, then logs in.
    fn attach(&self, folder: &Folder, disk: &IscsiDisk) -> Result<PathBuf, VolumeError> {
        let login = Login::of(disk);
        atomic_file::write(folder, OsStr::new(RECORD), &login.write(), 0o600)?;
        login.log_in(self, &disk.chap).map_err(|reason| step_failed(VolumeStep::WaitForAttach, reason))
    }

    /// Unmounts disks that no pod uses, and logs out of targets without a used disk. Skips locked targets.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        for base in [FOLDERS.mounts, FOLDERS.devices] {
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
            if base == FOLDERS.devices && interfaces.names()?.is_empty() {
                super::remove_if_empty(&root.join(FOLDERS.devices))?;
            }
        }
        Ok(())
    }

    fn sweep_disk(&self, root: &Path, base: &str, disks: &Folder, name: &OsStr) -> Result<(), VolumeError> {
        let text = name.to_string_lossy();
        let is_locked = |target: &String| text.contains(&format!("-{target}-lun-"));
        if self.locks.locked().iter().any(is_locked) {
            return Ok(());
        }
        let found = FOLDERS.release_unused(root, base, disks, name)?;
        let (Some(folder), DiskState::Unused) = (disks.existing(name)?, found) else { return Ok(()) };
        let record = crate::checkpoints::state_files::read(folder.path(), OsStr::new(RECORD))?;
        if let Some(login) = record.as_deref().and_then(Login::read) {
            let Some(_lock) = self.locks.try_lock(&login.target) else { return Ok(()) };
            self.detach(root, &login, &disks.path().join(name))?;
        }
        tree::remove(&folder, OsStr::new(RECORD))?;
        Ok(disks.remove_empty(name)?)
    }

    /// Removes a disk from the kernel, and logs out if it is the last disk of its target.
    fn detach(&self, root: &Path, login: &Login, own: &Path) -> Result<(), VolumeError> {
        let others = other_disks(root, own)?;
        let target = format!("-{}-lun-", login.target);
        if !others.iter().any(|other| other.ends_with(&format!("{target}{}", login.lun))) {
            let disks = self.disks.disks(&login.target, login.lun);
            let multipaths: BTreeSet<PathBuf> = disks
                .iter()
                .filter_map(|name| self.disks.multipath(&self.disks.devices.join(name)))
                .collect();
            // Best effort: the logout removes the devices, and its failure is reported.
            for device in multipaths {
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

/// The folder names of all other disks, of any interface, mounted or as raw devices.
fn other_disks(root: &Path, own: &Path) -> Result<Vec<String>, FileError> {
    let mut found = Vec::new();
    for base in [FOLDERS.mounts, FOLDERS.devices] {
        let Some(interfaces) = Folder::open(&root.join(base))? else { continue };
        for interface in interface_names(&interfaces)? {
            let Some(disks) = interfaces.existing(&interface)? else { continue };
            let names = disks.folder_names()?.into_iter().filter(|name| disks.path().join(name) != own);
            found.extend(names.map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}
