//! Volumes of FlexVolume drivers: programs below `--volume-plugin-dir` that mount volumes for the agent.
//!
//! The driver is looked up on every use, so that new and changed drivers take effect at once. The folder of a volume is
//! created before its driver is called and removed after the driver has undone everything, so that a restarted agent
//! knows what to undo.

mod driver;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{FlexVolume, FsGroup};
use parking_lot::Mutex;
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::{VolumeError, VolumeStep};

use super::VolumeFolder;
use super::shared_disk::{self, DiskLocks, step_failed};
use crate::errors::OnPath;
use crate::files::folder::Folder;
use crate::mount_table::{mounted_at, table};
use crate::pods::pod_folders::PRIVATE_MODE;
use crate::volumes::disk::{self, DiskMount};
use driver::{Driver, DriverError, device};

const PLUGIN_FOLDER: &str = "plugins/kubernetes.io/flexvolume";
const MOUNTS: &str = "mounts";
/// Prefix of plugin folders that do not belong to FlexVolume drivers.
const IN_TREE_PREFIX: &[u8] = b"kubernetes.io~";

#[derive(Clone, Debug)]
pub(super) struct FlexDrivers {
    pub(super) folder: PathBuf,
    /// The node's name, if the agent attaches volumes itself.
    pub(super) attach_as: Option<String>,
    pub(super) mount_program: OsString,
    cached_drivers: Arc<Mutex<BTreeMap<String, Driver>>>,
    /// Folders of volumes that are set up; not every driver mounts something.
    ready_folders: Arc<Mutex<BTreeSet<PathBuf>>>,
    locks: DiskLocks,
}

impl FlexDrivers {
    pub(super) fn new(folder: PathBuf, attach_as: Option<String>) -> Self {
        Self {
            folder,
            attach_as,
            mount_program: "mount".into(),
            cached_drivers: Arc::default(),
            ready_folders: Arc::default(),
            locks: DiskLocks::default(),
        }
    }

    /// Sets up a volume of a pod. `own` sets the pod's group, if the driver supports that.
    pub(super) fn set_up(
        &self,
        root: &Path,
        volume_folder: &VolumeFolder,
        volume: &FlexVolume,
        group: Option<FsGroup>,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if shared_disk::is_bound(volume_folder)?
            || self.ready_folders.lock().contains(&volume.path) && volume.path.exists()
        {
            return Ok(());
        }
        let driver = self.driver(&volume.driver)?;
        let Some(_lock) = self.locks.try_lock(&key(&volume.driver, &volume.name)) else {
            return Err(VolumeError::InProgress);
        };
        let source =
            if driver.capabilities.attach { Some(self.attach(root, &driver, volume)?) } else { None };
        let options = options::for_pod(volume, group).map_err(VolumeError::Refused)?;
        volume_folder.parent.make_below(&volume_folder.name, PRIVATE_MODE)?;
        volume_folder.record_mount("flexvolume")?;
        let mounted = match (driver.call("mount", &[&text(&volume.path), &options]), source) {
            (Ok(_), _) => Ok(()),
            (Err(DriverError::NotSupported), Some(source)) => shared_disk::bind(volume_folder, &source),
            (Err(DriverError::NotSupported), None) => {
                Err(VolumeError::Refused("mount: Not supported".to_owned()))
            }
            (Err(DriverError::Failed(reason)), _) => Err(VolumeError::Refused(reason)),
        };
        if let Err(error) = mounted {
            // Leftovers of the driver are reported when the pod is torn down.
            let _ = volume_folder.parent.remove_empty(&volume_folder.name);
            return Err(error);
        }
        self.ready_folders.lock().insert(volume.path.clone());
        if volume.read_only || !driver.capabilities.group {
            return Ok(());
        }
        match volume_folder.parent.existing(&volume_folder.name)? {
            Some(folder) => Ok(own(&folder)?),
            None => Ok(()),
        }
    }

    /// Attaches a volume and mounts it for the node, unless it is mounted. Returns the mount point.
    fn attach(&self, root: &Path, driver: &Driver, volume: &FlexVolume) -> Result<PathBuf, VolumeError> {
        let below = Path::new(PLUGIN_FOLDER).join(&volume.driver).join(MOUNTS).join(&volume.name);
        let target = Folder::make(root, PRIVATE_MODE)?.make_below(&below, PRIVATE_MODE)?.real_path()?;
        if mounted_at(&table()?, &target).is_some() {
            return Ok(target);
        }
        let options = options::base(volume);
        let attach_failed = |reason: String| step_failed(VolumeStep::WaitForAttach, reason);
        let attached = match (&self.attach_as, &volume.device) {
            (None, Some(device)) => device.clone(),
            (None, None) => {
                return Err(attach_failed("Volume not attached according to node status".to_owned()));
            }
            (Some(node), _) => response_or(
                driver.call("attach", &[&options, node]),
                |response| device(&response),
                String::new,
            )
            .map_err(attach_failed)?,
        };
        let waited = driver.call("waitforattach", &[&attached, &options]);
        let found =
            response_or(waited, |response| device(&response), || attached.clone()).map_err(attach_failed)?;
        match driver.call("mountdevice", &[&text(&target), &found, &options]) {
            Ok(_) => Ok(target),
            // A driver that attaches no device has nothing to mount.
            Err(DriverError::NotSupported) if found.is_empty() => Ok(target),
            Err(DriverError::NotSupported) => {
                let fs_type = if volume.fs_type.is_empty() { "ext4" } else { &volume.fs_type };
                let disk = DiskMount {
                    device: Path::new(&found),
                    fs_type,
                    read_only: volume.read_only,
                    options: &[],
                };
                disk::mount(&disk, &target, &self.mount_program)
                    .map_err(|error| disk::mount_error(&error, error.text()))?;
                Ok(target)
            }
            Err(DriverError::Failed(reason)) => Err(step_failed(VolumeStep::MountDevice, reason)),
        }
    }

    /// Grows the file system of a volume.
    pub(super) fn grow(&self, volume: &FlexVolume, sizes: (i64, i64)) -> Result<(), VolumeError> {
        let driver = self.driver(&volume.driver)?;
        if !driver.capabilities.resize {
            return Ok(());
        }
        let path = volume.path.canonicalize().on_path("resolve folder", &volume.path)?;
        let device = mounted_at(&table()?, &path).and_then(|mount| device_of(&mount.device));
        let shown = device.as_deref().map(text).unwrap_or_default();
        let (options, old, new) = (options::base(volume), sizes.0.to_string(), sizes.1.to_string());
        match (driver.call("expandfs", &[&options, &shown, &text(&path), &new, &old]), device) {
            (Ok(_), _) | (Err(DriverError::NotSupported), None) => Ok(()),
            (Err(DriverError::NotSupported), Some(device)) => disk::grow(&device, &path),
            (Err(DriverError::Failed(reason)), _) => Err(VolumeError::Refused(reason)),
        }
    }

    /// Tears down all FlexVolumes of a pod. Continues after a failure and returns the first.
    pub(super) fn tear_down(&self, pod: &Folder) -> Result<(), VolumeError> {
        let Some(volumes) = pod.existing("volumes")? else { return Ok(()) };
        let mut failure = None;
        for name in
            volumes.folder_names()?.into_iter().filter(|name| !name.as_bytes().starts_with(IN_TREE_PREFIX))
        {
            let Some(folder) = volumes.existing(&name)? else { continue };
            for volume in folder.folder_names()? {
                if let Err(error) = self.unmount(&folder, &driver_of(&name), &volume) {
                    failure.get_or_insert(error);
                }
            }
            if folder.names()?.is_empty() {
                volumes.remove_empty(&name)?;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn unmount(&self, folder: &Folder, driver: &str, volume: &OsStr) -> Result<(), VolumeError> {
        let path = folder.path().join(volume);
        let name = volume.to_string_lossy();
        // Not a volume of a known driver, and not a mount that would block the removal of the pod.
        if !driver::program(&self.folder, driver).exists() && !folder.is_mount_point(volume)? {
            return Ok(());
        }
        let Some(_lock) = self.locks.try_lock(&key(driver, &name)) else {
            return Err(VolumeError::InProgress);
        };
        match self.driver(driver)?.call("unmount", &[&text(&path)]) {
            Ok(_) => {}
            Err(DriverError::NotSupported) => super::tear_down::unmount(folder, Path::new(volume))?,
            Err(DriverError::Failed(reason)) => return Err(VolumeError::Refused(reason)),
        }
        self.ready_folders.lock().remove(&path);
        remove(folder, volume)
    }

    /// Unmounts and detaches volumes that no pod uses.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        let Some(vendors) = Folder::open(&root.join(PLUGIN_FOLDER))? else { return Ok(()) };
        for vendor in vendors.folder_names()? {
            let Some(folder) = vendors.existing(&vendor)? else { continue };
            let vendor = Path::new(&vendor);
            for name in folder.folder_names()? {
                // A driver without a vendor has its mounts directly below its name.
                let driver = if name == MOUNTS { vendor.to_path_buf() } else { vendor.join(name) };
                let Some(mounts) = vendors.existing(driver.join(MOUNTS))? else { continue };
                for volume in mounts.folder_names()? {
                    self.sweep_volume(root, &mounts, &driver.to_string_lossy(), &volume)?;
                }
            }
        }
        Ok(())
    }

    fn sweep_volume(
        &self,
        root: &Path,
        mounts: &Folder,
        driver: &str,
        volume: &OsStr,
    ) -> Result<(), VolumeError> {
        let name = volume.to_string_lossy();
        let Some(_lock) = self.locks.try_lock(&key(driver, &name)) else { return Ok(()) };
        if is_used(root, driver, volume)? {
            return Ok(());
        }
        let driver = self.driver(driver)?;
        let target = mounts.real_path()?.join(volume);
        if mounted_at(&table()?, &target).is_some() {
            match driver.call("unmountdevice", &[&text(&target)]) {
                Ok(_) => {}
                Err(DriverError::NotSupported) => super::tear_down::unmount(mounts, Path::new(volume))?,
                Err(DriverError::Failed(reason)) => return Err(VolumeError::Refused(reason)),
            }
        }
        if let Some(node) = &self.attach_as {
            response_or(driver.call("detach", &[&name, node]), drop, || ()).map_err(VolumeError::Refused)?;
        }
        remove(mounts, volume)
    }

    /// Looks up a driver and initializes it if it is new or changed.
    fn driver(&self, name: &str) -> Result<Driver, VolumeError> {
        let cached = self.cached_drivers.lock().get(name).cloned();
        let driver = Driver::open(&self.folder, name, cached.as_ref()).map_err(VolumeError::Refused)?;
        self.cached_drivers.lock().insert(name.to_owned(), driver.clone());
        Ok(driver)
    }
}

/// Whether a pod uses a volume.
fn is_used(root: &Path, driver: &str, volume: &OsStr) -> Result<bool, FileError> {
    let Some(pods) = Folder::open(&root.join("pods"))? else { return Ok(false) };
    let below = Path::new("volumes").join(driver.replace('/', "~")).join(volume);
    let has_it = |name: &OsString| pods.path().join(name).join(&below).symlink_metadata().is_ok();
    Ok(pods.folder_names()?.iter().any(has_it))
}

/// The device file of `major:minor`; `None` if the file system has no device.
fn device_of(numbers: &str) -> Option<PathBuf> {
    let found = std::fs::read_link(Path::new("/sys/dev/block").join(numbers)).ok()?;
    Some(Path::new("/dev").join(found.file_name()?))
}

/// Reads the response of a driver, or returns the default if the driver does not support the call.
fn response_or<T>(
    response: Result<serde_json::Value, DriverError>,
    read: impl FnOnce(serde_json::Value) -> T,
    default: impl FnOnce() -> T,
) -> Result<T, String> {
    match response {
        Ok(response) => Ok(read(response)),
        Err(DriverError::NotSupported) => Ok(default()),
        Err(DriverError::Failed(reason)) => Err(reason),
    }
}

/// Removes an empty folder, unless the driver removed it. Fails if it is still mounted.
fn remove(folder: &Folder, name: &OsStr) -> Result<(), VolumeError> {
    if folder.stat(name)?.is_none() {
        return Ok(());
    }
    Ok(folder.remove_empty(name)?)
}

/// The driver name of a folder below a pod's volumes.
fn driver_of(folder: &OsStr) -> String {
    folder.to_string_lossy().replacen('~', "/", 1)
}

fn key(driver: &str, volume: &str) -> String {
    format!("{driver}/{volume}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
