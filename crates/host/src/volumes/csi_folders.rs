//! Folders and records of CSI volumes, in upstream's locations.

mod record;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{FsGroup, PodUid};
use ports::host::csi_folders::{
    CsiFolders, FoundVolumes, Published, StagingRecord, UnreadableRecord, VolumeRecord,
};
use ports::host::pod_folders::FileError;
use ports::host::pod_volumes::Progress;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use timing::KeyedLock;

use crate::errors::{OnPath, entry_name, invalid_input};
use crate::files::folder::Folder;
use crate::files::tree;
use crate::hanging_io::run_may_hang;
use crate::pods::pod_folders::{PRIVATE_MODE, existing_pod, make_pod};
use crate::volumes::local::link_to;
use crate::volumes::ownership::{Access, set_group};
use crate::volumes::remove_if_empty;
use record::{
    RECORD_FILE, read_record, read_staging_record, staging_name, write_record, write_staging_record,
};

const PLUGIN: &str = "kubernetes.io~csi";
const DEVICES: &str = "volumeDevices";
const MOUNT: &str = "mount";
/// How long work inside a mounted volume waits for earlier work on a volume of the same pod.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// [`CsiFolders`] below the agent's root folder.
#[derive(Clone, Debug)]
pub struct HostCsiFolders {
    root: PathBuf,
    plugin: PathBuf,
    /// Serializes work inside the mounted volumes of a pod: while one call hangs, no second one is started.
    volume_locks: KeyedLock<PodUid>,
}

/// A volume of a pod: a folder, or a symlink to a device.
struct Entry {
    /// The parent folder.
    folder: Arc<Folder>,
    name: OsString,
    is_block: bool,
    record: Result<Option<VolumeRecord>, FileError>,
}

impl HostCsiFolders {
    /// `root` is the kubelet's root folder, such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { plugin: root.join("plugins/kubernetes.io/csi"), root, volume_locks: KeyedLock::default() }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let folders = self.clone();
        // A driver's mount below may hang.
        run_may_hang(move || work(&folders)).await.on_path("run file work on", &self.root)?
    }

    /// Runs work inside a mounted volume. Hanging work keeps the lock of its pod.
    async fn run_inside<T: Send + 'static>(
        &self,
        volume: &Published,
        work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let Some(guard) = self.volume_locks.acquire(&volume.uid, LOCK_TIMEOUT).await else {
            return Err(Errno::BUSY).on_path("inspect, while an earlier inspection hangs,", &volume.target);
        };
        self.run(move |_| {
            let _guard = guard;
            work()
        })
        .await
    }

    /// The paths of a volume.
    fn paths_of(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published {
        let (target, staging) = if is_block {
            let devices = self.plugin.join(DEVICES);
            (
                devices.join("publish").join(&record.spec_name).join(uid.as_str()),
                devices.join("staging").join(&record.spec_name),
            )
        } else {
            let volume = self.pod_volume(uid, &record.spec_name);
            let staged = self.plugin.join(&record.driver).join(staging_name(&record.handle));
            (volume.join(MOUNT), staged.join("globalmount"))
        };
        Published { uid: uid.clone(), record, target, staging, is_block }
    }

    fn pod_volume(&self, uid: &PodUid, name: &str) -> PathBuf {
        self.root.join("pods").join(uid.as_str()).join("volumes").join(PLUGIN).join(name)
    }

    /// The folder with the record of a block volume, which all pods share.
    fn device_data(&self, name: &str) -> PathBuf {
        self.plugin.join(DEVICES).join(name).join("data")
    }

    fn prepare_now(&self, volume: &Published) -> Result<(), FileError> {
        let name = &volume.record.spec_name;
        entry_name(name)?;
        entry_name(&volume.record.driver)?;
        let pod = make_pod(&self.root, &volume.uid)?;
        if volume.is_block {
            let data = make_folder(&self.device_data(name))?;
            write_record(&data, &volume.record)?;
            make_folder(volume.target.parent().unwrap_or(&self.plugin))?;
            // Create the link before the device: after a restart the agent finds the device through it.
            link_to(&pod, &pod.path().join(DEVICES).join(PLUGIN).join(name), &volume.target)?;
        } else {
            let folder = pod.make_below(Path::new("volumes").join(PLUGIN).join(name), PRIVATE_MODE)?;
            write_record(&folder, &volume.record)?;
        }
        Ok(())
    }

    /// The volumes of a pod that is torn down. Removes volumes without a record.
    fn of_pod_now(&self, uid: &PodUid) -> Result<FoundVolumes, FileError> {
        let mut found = FoundVolumes::default();
        for entry in self.entries(uid)? {
            match (&entry.record, entry.is_block) {
                // Created, but never passed to a driver.
                (Ok(None), true) => tree::remove(&entry.folder, &entry.name)?,
                (Ok(None), false) => remove_unmounted(&entry.folder, &entry.name)?,
                (Ok(Some(_)) | Err(_), _) => self.add(&mut found, uid, entry),
            }
        }
        Ok(found)
    }

    fn all_now(&self) -> Result<FoundVolumes, FileError> {
        let mut found = FoundVolumes::default();
        let Some(pods) = Folder::open(&self.root.join("pods"))? else { return Ok(found) };
        for name in pods.folder_names()? {
            let Some(uid) = name.to_str().map(PodUid::from) else { continue };
            for entry in self.entries(&uid)? {
                self.add(&mut found, &uid, entry);
            }
        }
        Ok(found)
    }

    fn add(&self, found: &mut FoundVolumes, uid: &PodUid, entry: Entry) {
        match entry.record {
            Ok(Some(record)) => found.volumes.push(self.paths_of(uid, record, entry.is_block)),
            Ok(None) => {}
            Err(error) => {
                let spec_name = entry.name.to_string_lossy().into_owned();
                found.unreadable.push(UnreadableRecord { uid: uid.clone(), spec_name, error });
            }
        }
    }

    /// The volumes of a pod with their records, if any.
    fn entries(&self, uid: &PodUid) -> Result<Vec<Entry>, FileError> {
        let mut entries = Vec::new();
        let Some(pod) = existing_pod(&self.root, uid)? else { return Ok(entries) };
        if let Some(volumes) = pod.existing(Path::new("volumes").join(PLUGIN))? {
            let folder = Arc::new(volumes);
            for name in folder.folder_names()? {
                let record = record_in(folder.existing(&name));
                entries.push(Entry { folder: folder.clone(), name, is_block: false, record });
            }
        }
        if let Some(links) = pod.existing(Path::new(DEVICES).join(PLUGIN))? {
            let folder = Arc::new(links);
            for name in folder.names()? {
                let record = record_in(Folder::open(&self.device_data(&name.to_string_lossy())));
                entries.push(Entry { folder: folder.clone(), name, is_block: true, record });
            }
        }
        Ok(entries)
    }

    fn remove_staging_now(volume: &Published) -> Result<(), FileError> {
        let (Some(parent), Some(name)) = (volume.staging.parent(), volume.staging.file_name()) else {
            return Ok(());
        };
        let Some(folder) = Folder::open(parent)? else { return Ok(()) };
        remove_unmounted(&folder, name)?;
        if volume.is_block {
            return Ok(());
        }
        tree::remove(&folder, OsStr::new(RECORD_FILE))?;
        remove_if_empty(parent)
    }

    fn remove_now(&self, volume: &Published) -> Result<(), FileError> {
        let (uid, name) = (&volume.uid, volume.record.spec_name.as_str());
        if volume.is_block {
            return self.remove_device(uid, volume, OsStr::new(name));
        }
        let Some(pod) = existing_pod(&self.root, uid)? else { return Ok(()) };
        let Some(volumes) = pod.existing(Path::new("volumes").join(PLUGIN))? else { return Ok(()) };
        if let Some(folder) = volumes.existing(name)? {
            remove_unmounted(&folder, OsStr::new(MOUNT))?;
            tree::remove(&folder, OsStr::new(RECORD_FILE))?;
            volumes.remove_empty(OsStr::new(name))?;
        }
        remove_if_empty(volumes.path())
    }

    fn remove_device(&self, uid: &PodUid, volume: &Published, name: &OsStr) -> Result<(), FileError> {
        if let Some((parent, file)) = volume.target.parent().zip(volume.target.file_name())
            && let Some(folder) = Folder::open(parent)?
        {
            remove_unmounted(&folder, file)?;
            remove_if_empty(parent)?;
        }
        let others = self.all_now()?;
        let spec_name = &volume.record.spec_name;
        let has_device =
            |other: &Published| other.is_block && other.record.spec_name == *spec_name && other.uid != *uid;
        let may_have = |other: &UnreadableRecord| other.spec_name == *spec_name && other.uid != *uid;
        let is_last = !others.volumes.iter().any(has_device) && !others.unreadable.iter().any(may_have);
        if let Some(pod) = existing_pod(&self.root, uid)?
            && let Some(links) = pod.existing(Path::new(DEVICES).join(PLUGIN))?
        {
            if is_last && let Some(devices) = Folder::open(&self.plugin.join(DEVICES))? {
                tree::remove(&devices, name)?;
            }
            tree::remove(&links, name)?;
            remove_if_empty(links.path())?;
        }
        Ok(())
    }
}

#[async_trait]
impl CsiFolders for HostCsiFolders {
    fn locate(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published {
        self.paths_of(uid, record, is_block)
    }

    async fn prepare(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |folders| folders.prepare_now(&volume)).await
    }

    async fn prepare_staging(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |_| {
            make_folder(&volume.staging)?;
            match volume.staging.parent() {
                Some(parent) if !volume.is_block => {
                    write_staging_record(&make_folder(parent)?, &volume.record)
                }
                Some(_) | None => Ok(()),
            }
        })
        .await
    }

    async fn staged(&self, volume: &Published) -> Result<StagingRecord, FileError> {
        let Some(parent) = volume.staging.parent().filter(|_| !volume.is_block) else {
            return Ok(StagingRecord::Missing);
        };
        let parent = parent.to_path_buf();
        self.run(move |_| match Folder::open(&parent)? {
            Some(folder) => read_staging_record(&folder),
            None => Ok(StagingRecord::Missing),
        })
        .await
    }

    async fn recorded(&self, volume: &Published) -> Result<Option<VolumeRecord>, FileError> {
        let (uid, name, is_block) = (volume.uid.clone(), volume.record.spec_name.clone(), volume.is_block);
        self.run(move |folders| {
            let path = if is_block { folders.device_data(&name) } else { folders.pod_volume(&uid, &name) };
            record_in(Folder::open(&path))
        })
        .await
    }

    async fn is_published(&self, volume: &Published) -> Result<bool, FileError> {
        let (target, is_block) = (volume.target.clone(), volume.is_block);
        let inspect = move || {
            let Some((parent, name)) = target.parent().zip(target.file_name()) else { return Ok(false) };
            let Some(folder) = Folder::open(parent)? else { return Ok(false) };
            match folder.stat(name) {
                Ok(found) => Ok(found.is_some() && (is_block || folder.is_mount_point(name)?)),
                // The driver is called again and can repair the mount.
                Err(error) if is_corrupted(&error) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.run_inside(volume, inspect).await
    }

    async fn set_group(
        &self,
        volume: &Published,
        group: FsGroup,
        progress: &Progress,
    ) -> Result<(), FileError> {
        let (target, progress) = (volume.target.clone(), progress.clone());
        let give = move || match Folder::open(&target)? {
            Some(folder) => set_group(&folder, group, Access::ReadWrite, &progress),
            None => Err(Errno::NOENT).on_path("open volume", target),
        };
        self.run_inside(volume, give).await
    }

    async fn of_pod(&self, uid: &PodUid) -> Result<FoundVolumes, FileError> {
        let uid = uid.clone();
        self.run(move |folders| folders.of_pod_now(&uid)).await
    }

    async fn all(&self) -> Result<FoundVolumes, FileError> {
        self.run(Self::all_now).await
    }

    async fn remove_staging(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |_| Self::remove_staging_now(&volume)).await
    }

    async fn remove(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |folders| folders.remove_now(&volume)).await
    }
}

fn record_in(folder: Result<Option<Folder>, FileError>) -> Result<Option<VolumeRecord>, FileError> {
    folder?.map_or(Ok(None), |folder| read_record(&folder))
}

/// Whether the error means that the server or process behind a mount does not respond.
fn is_corrupted(error: &FileError) -> bool {
    let corrupted = [Errno::NOTCONN, Errno::STALE, Errno::IO, Errno::ACCESS, Errno::HOSTDOWN];
    Errno::from_io_error(&error.source).is_some_and(|errno| corrupted.contains(&errno))
}

fn make_folder(path: &Path) -> Result<Folder, FileError> {
    Folder::make(path, PRIVATE_MODE)
}

/// Removes a mount point that a driver left behind: an empty folder or a file. Fails if something is mounted.
fn remove_unmounted(folder: &Folder, name: &OsStr) -> Result<(), FileError> {
    if folder.stat(name)?.is_none() {
        return Ok(());
    }
    let path = folder.path().join(name);
    if folder.is_mount_point(name)? {
        return Err(invalid_input("the driver left it mounted")).on_path("remove", path);
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => folder.remove_empty(name),
        Err(error) => Err(error).on_path("remove", path),
    }
}
