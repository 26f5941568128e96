//! Volumes of FlexVolume drivers: programs below `--volume-plugin-dir` that mount what the agent asks for.
//!
//! A driver is looked for when a volume names it, so that one that came or changed is known at once. The folder of a
//! volume is made before its driver is called and goes when the driver has undone everything, so that an agent that comes
//! later knows what to undo.

mod driver;
mod options;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use model::{FlexVolume, FsGroup};
use ports::pod_folders::FileError;
use ports::pod_volumes::{VolumeError, VolumeStep};

use super::Volume;
use super::shared_disk::{self, Busy, failed};
use crate::disk::{self, Disk};
use crate::failure::OnPath;
use crate::folder::Folder;
use crate::mount_table::{mounted_at, table};
use crate::pod_folders::PRIVATE;
use driver::{Driver, Refusal, device};

const PLACE: &str = "plugins/kubernetes.io/flexvolume";
const MOUNTS: &str = "mounts";
/// Plugins of pods' volumes that are no drivers.
const OWN: &[u8] = b"kubernetes.io~";

/// The drivers of the node.
#[derive(Clone, Debug)]
pub(super) struct FlexDrivers {
    /// Where they are.
    pub(super) folder: PathBuf,
    /// The node's name, when no controller attaches volumes.
    pub(super) attaches_as: Option<String>,
    pub(super) mount_program: OsString,
    known: Arc<Mutex<BTreeMap<String, Driver>>>,
    /// Folders that drivers filled: not all of them mount something.
    filled: Arc<Mutex<BTreeSet<PathBuf>>>,
    busy: Busy,
}

impl FlexDrivers {
    /// Drivers in this folder.
    pub(super) fn new(folder: PathBuf, attaches_as: Option<String>) -> Self {
        Self {
            folder,
            attaches_as,
            mount_program: "mount".into(),
            known: Arc::default(),
            filled: Arc::default(),
            busy: Busy::default(),
        }
    }

    /// Brings a volume into a pod; `own` gives it to the pod's group, unless its driver does not want that.
    pub(super) fn set_up(
        &self,
        root: &Path,
        place: &Volume,
        volume: &FlexVolume,
        group: Option<FsGroup>,
        own: impl FnOnce(&Folder) -> Result<(), FileError>,
    ) -> Result<(), VolumeError> {
        if shared_disk::is_bound(place)? || self.filled().contains(&volume.path) && volume.path.exists() {
            return Ok(());
        }
        let driver = self.driver(&volume.driver)?;
        let Some(_turn) = self.busy.turn(&key(&volume.driver, &volume.name)) else {
            return Err(VolumeError::InProgress);
        };
        let source = if driver.abilities.attach { Some(self.attach(root, &driver, volume)?) } else { None };
        let told = options::for_pod(volume, group).map_err(VolumeError::Refused)?;
        let folder = place.parent.make_below(&place.name, PRIVATE)?;
        place.note_mount("flexvolume")?;
        let done = match (driver.call("mount", &[&text(&volume.path), &told]), source) {
            (Ok(_), _) => Ok(()),
            (Err(Refusal::NotSupported), Some(source)) => shared_disk::bind(place, &source),
            (Err(Refusal::NotSupported), None) => {
                Err(VolumeError::Refused("mount: Not supported".to_owned()))
            }
            (Err(Refusal::Failed(reason)), _) => Err(VolumeError::Refused(reason)),
        };
        drop(folder);
        if let Err(error) = done {
            // What the driver left there is told of when the pod goes.
            let _ = place.parent.remove_empty(&place.name);
            return Err(error);
        }
        self.filled().insert(volume.path.clone());
        if volume.read_only || !driver.abilities.group {
            return Ok(());
        }
        match place.parent.existing(&place.name)? {
            Some(folder) => Ok(own(&folder)?),
            None => Ok(()),
        }
    }

    /// Attaches a volume and mounts it for the node, unless that is done.
    fn attach(&self, root: &Path, driver: &Driver, volume: &FlexVolume) -> Result<PathBuf, VolumeError> {
        let below = Path::new(PLACE).join(&volume.driver).join(MOUNTS).join(&volume.name);
        let place = Folder::make(root, PRIVATE)?.make_below(&below, PRIVATE)?.real_path()?;
        if mounted_at(&table()?, &place).is_some() {
            return Ok(place);
        }
        let told = options::plain(volume);
        let waits = |reason: String| failed(VolumeStep::WaitForAttach, reason);
        let attached = match (&self.attaches_as, &volume.device) {
            (None, Some(device)) => device.clone(),
            (None, None) => {
                return Err(waits("Volume not attached according to node status".to_owned()));
            }
            (Some(node), _) => {
                answered(driver.call("attach", &[&told, node]), |answer| device(&answer), String::new)
                    .map_err(waits)?
            }
        };
        let waited = driver.call("waitforattach", &[&attached, &told]);
        let found = answered(waited, |answer| device(&answer), || attached.clone()).map_err(waits)?;
        match driver.call("mountdevice", &[&text(&place), &found, &told]) {
            Ok(_) => Ok(place),
            // A driver that attaches nothing has nothing to mount.
            Err(Refusal::NotSupported) if found.is_empty() => Ok(place),
            Err(Refusal::NotSupported) => {
                let fs_type = if volume.fs_type.is_empty() { "ext4" } else { &volume.fs_type };
                let disk =
                    Disk { device: Path::new(&found), fs_type, read_only: volume.read_only, options: &[] };
                disk::mount(&disk, &place, &self.mount_program)
                    .map_err(|error| disk::not_mounted(&error, error.text()))?;
                Ok(place)
            }
            Err(Refusal::Failed(reason)) => Err(failed(VolumeStep::MountDevice, reason)),
        }
    }

    /// Lets the file system of a volume follow its disk.
    pub(super) fn grow(&self, volume: &FlexVolume, sizes: (i64, i64)) -> Result<(), VolumeError> {
        let driver = self.driver(&volume.driver)?;
        if !driver.abilities.resize {
            return Ok(());
        }
        let path = volume.path.canonicalize().on_path("resolve folder", &volume.path)?;
        let device = mounted_at(&table()?, &path).and_then(|mount| device_of(&mount.device));
        let shown = device.as_deref().map(text).unwrap_or_default();
        let (told, old, new) = (options::plain(volume), sizes.0.to_string(), sizes.1.to_string());
        match (driver.call("expandfs", &[&told, &shown, &text(&path), &new, &old]), device) {
            (Ok(_), _) | (Err(Refusal::NotSupported), None) => Ok(()),
            (Err(Refusal::NotSupported), Some(device)) => disk::grow(&device, &path),
            (Err(Refusal::Failed(reason)), _) => Err(VolumeError::Refused(reason)),
        }
    }

    /// Undoes all volumes of a pod that drivers serve. One that fails does not keep the others from being tried.
    pub(super) fn tear_down(&self, pod: &Folder) -> Result<(), VolumeError> {
        let Some(volumes) = pod.existing("volumes")? else { return Ok(()) };
        let mut failure = None;
        for name in volumes.folder_names()?.into_iter().filter(|name| !name.as_bytes().starts_with(OWN)) {
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
        // Nobody knows whose it is, and it is no mount that the pod's end would have to wait for.
        if !driver::program(&self.folder, driver).exists() && !folder.is_mount_point(volume)? {
            return Ok(());
        }
        let Some(_turn) = self.busy.turn(&key(driver, &name)) else { return Err(VolumeError::InProgress) };
        match self.driver(driver)?.call("unmount", &[&text(&path)]) {
            Ok(_) => {}
            Err(Refusal::NotSupported) => super::tear_down::unmount(folder, Path::new(volume))?,
            Err(Refusal::Failed(reason)) => return Err(VolumeError::Refused(reason)),
        }
        self.filled().remove(&path);
        remove(folder, volume)
    }

    /// Unmounts and detaches what no pod has any more.
    pub(super) fn sweep(&self, root: &Path) -> Result<(), VolumeError> {
        let Some(vendors) = Folder::open(&root.join(PLACE))? else { return Ok(()) };
        for vendor in vendors.folder_names()? {
            let Some(folder) = vendors.existing(&vendor)? else { continue };
            // A driver without a vendor has its mounts here.
            let drivers: Vec<PathBuf> = folder
                .folder_names()?
                .into_iter()
                .map(
                    |name| {
                        if name == MOUNTS { PathBuf::from(&vendor) } else { Path::new(&vendor).join(name) }
                    },
                )
                .collect();
            for driver in drivers {
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
        let Some(_turn) = self.busy.turn(&key(driver, &name)) else { return Ok(()) };
        if is_used(root, driver, volume)? {
            return Ok(());
        }
        let driver = self.driver(driver)?;
        let place = mounts.real_path()?.join(volume);
        if mounted_at(&table()?, &place).is_some() {
            match driver.call("unmountdevice", &[&text(&place)]) {
                Ok(_) => {}
                Err(Refusal::NotSupported) => super::tear_down::unmount(mounts, Path::new(volume))?,
                Err(Refusal::Failed(reason)) => return Err(VolumeError::Refused(reason)),
            }
        }
        if let Some(node) = &self.attaches_as {
            answered(driver.call("detach", &[&name, node]), drop, || ()).map_err(VolumeError::Refused)?;
        }
        remove(mounts, volume)
    }

    /// The driver of this name, as it is now.
    fn driver(&self, name: &str) -> Result<Driver, VolumeError> {
        let known = self.known().get(name).cloned();
        let driver = Driver::open(&self.folder, name, known.as_ref()).map_err(VolumeError::Refused)?;
        self.known().insert(name.to_owned(), driver.clone());
        Ok(driver)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Driver>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn filled(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether some pod has a volume.
fn is_used(root: &Path, driver: &str, volume: &OsStr) -> Result<bool, FileError> {
    let Some(pods) = Folder::open(&root.join("pods"))? else { return Ok(false) };
    let below = Path::new("volumes").join(driver.replace('/', "~")).join(volume);
    let has_it = |name: &OsString| pods.path().join(name).join(&below).symlink_metadata().is_ok();
    Ok(pods.folder_names()?.iter().any(has_it))
}

/// The device of a mounted file system, by its numbers; `None` if there is none.
fn device_of(numbers: &str) -> Option<PathBuf> {
    let found = std::fs::read_link(Path::new("/sys/dev/block").join(numbers)).ok()?;
    Some(Path::new("/dev").join(found.file_name()?))
}

/// What a driver says, or what stands for it when the driver leaves it to the agent.
fn answered<T>(
    called: Result<serde_json::Value, Refusal>,
    read: impl FnOnce(serde_json::Value) -> T,
    default: impl FnOnce() -> T,
) -> Result<T, String> {
    match called {
        Ok(answer) => Ok(read(answer)),
        Err(Refusal::NotSupported) => Ok(default()),
        Err(Refusal::Failed(reason)) => Err(reason),
    }
}

/// Removes an empty folder; the driver may have done so. What is still mounted stays and is told of.
fn remove(folder: &Folder, name: &OsStr) -> Result<(), VolumeError> {
    if folder.stat(name)?.is_none() {
        return Ok(());
    }
    Ok(folder.remove_empty(name)?)
}

/// The driver of a folder below a pod's volumes.
fn driver_of(folder: &OsStr) -> String {
    folder.to_string_lossy().replacen('~', "/", 1)
}

fn key(driver: &str, volume: &str) -> String {
    format!("{driver}/{volume}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
