//! The folders and records of CSI volumes, where upstream has them.

mod record;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{FsGroup, PodUid};
use ports::csi_folders::{
    CsiFolders, FoundVolumes, Published, StagingRecord, UnreadableRecord, VolumeRecord,
};
use ports::pod_folders::FileError;
use ports::pod_volumes::Progress;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::failure::{OnPath, entry_name, refused};
use crate::folder::Folder;
use crate::foreign_files::apart;
use crate::pod_folders::{PRIVATE, existing_pod, make_pod};
use crate::pod_volumes::local::link_to;
use crate::pod_volumes::ownership::{Access, give_to_group};
use crate::tree;
use crate::turns::Turns;
use record::{DATA, read_record, read_staging_record, staging_name, staging_record, write_record};

const PLUGIN: &str = "kubernetes.io~csi";
const DEVICES: &str = "volumeDevices";
const MOUNT: &str = "mount";
/// How long a look at a volume waits for an earlier one at a volume of the same pod.
const PATIENCE: Duration = Duration::from_secs(20);

/// [`CsiFolders`] below the agent's root folder.
#[derive(Clone, Debug)]
pub struct HostCsiFolders {
    root: PathBuf,
    plugin: PathBuf,
    /// Pods in whose mounted volumes somebody looks: a look that hangs is not made a second time.
    looks: Turns<PodUid>,
}

/// A volume of a pod: a folder, or a link to a device.
struct Entry {
    /// Where it lies.
    folder: Arc<Folder>,
    name: OsString,
    is_block: bool,
    record: Result<Option<VolumeRecord>, FileError>,
}

impl HostCsiFolders {
    /// `root` is such as `/var/lib/kubelet`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { plugin: root.join("plugins/kubernetes.io/csi"), root, looks: Turns::default() }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let folders = self.clone();
        // What a driver has mounted below may hang.
        apart(move || work(&folders)).await.on_path("run file work on", &self.root)?
    }

    /// Works on files of a mounted volume. Work that hangs keeps its pod's turn with its thread.
    async fn run_inside<T: Send + 'static>(
        &self,
        volume: &Published,
        work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let Some(turn) = self.looks.take(&volume.uid, PATIENCE).await else {
            return Err(Errno::BUSY).on_path("look again, while an earlier look hangs, at", &volume.target);
        };
        self.run(move |_| {
            let _turn = turn;
            work()
        })
        .await
    }

    /// Where everything of a volume lies.
    fn place_of(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published {
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

    /// The record of a block volume, which all pods share.
    fn device_data(&self, name: &str) -> PathBuf {
        self.plugin.join(DEVICES).join(name).join("data")
    }

    fn prepare_now(&self, volume: &Published) -> Result<(), FileError> {
        let name = &volume.record.spec_name;
        entry_name(name)?;
        entry_name(&volume.record.driver)?;
        let pod = make_pod(&self.root, &volume.uid)?;
        if volume.is_block {
            let data = make(&self.device_data(name))?;
            write_record(&data, &volume.record)?;
            make(volume.target.parent().unwrap_or(&self.plugin))?;
            // The link comes before the device: it is what tells the next agent of it.
            link_to(&pod, &pod.path().join(DEVICES).join(PLUGIN).join(name), &volume.target)?;
        } else {
            let folder = pod.make_below(Path::new("volumes").join(PLUGIN).join(name), PRIVATE)?;
            write_record(&folder, &volume.record)?;
        }
        Ok(())
    }

    /// The records of a pod that is torn down.
    fn of_pod_now(&self, uid: &PodUid) -> Result<FoundVolumes, FileError> {
        let mut found = FoundVolumes::default();
        for entry in self.entries(uid)? {
            match (&entry.record, entry.is_block) {
                // Made, but never told to a driver.
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
            Ok(Some(record)) => found.volumes.push(self.place_of(uid, record, entry.is_block)),
            Ok(None) => {}
            Err(error) => {
                let spec_name = entry.name.to_string_lossy().into_owned();
                found.unreadable.push(UnreadableRecord { uid: uid.clone(), spec_name, error });
            }
        }
    }

    /// Everything of a pod that may have a record, with what the record says.
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
        tree::remove(&folder, OsStr::new(DATA))?;
        remove_last(parent)
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
            tree::remove(&folder, OsStr::new(DATA))?;
            volumes.remove_empty(OsStr::new(name))?;
        }
        remove_last(volumes.path())
    }

    fn remove_device(&self, uid: &PodUid, volume: &Published, name: &OsStr) -> Result<(), FileError> {
        if let Some((parent, file)) = volume.target.parent().zip(volume.target.file_name())
            && let Some(folder) = Folder::open(parent)?
        {
            remove_unmounted(&folder, file)?;
            remove_last(parent)?;
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
            remove_last(links.path())?;
        }
        Ok(())
    }
}

#[async_trait]
impl CsiFolders for HostCsiFolders {
    fn place(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published {
        self.place_of(uid, record, is_block)
    }

    async fn prepare(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |folders| folders.prepare_now(&volume)).await
    }

    async fn prepare_staging(&self, volume: &Published) -> Result<(), FileError> {
        let volume = volume.clone();
        self.run(move |_| {
            make(&volume.staging)?;
            match volume.staging.parent() {
                Some(parent) if !volume.is_block => staging_record(&make(parent)?, &volume.record),
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
            let place = if is_block { folders.device_data(&name) } else { folders.pod_volume(&uid, &name) };
            record_in(Folder::open(&place))
        })
        .await
    }

    async fn is_published(&self, volume: &Published) -> Result<bool, FileError> {
        let (target, is_block) = (volume.target.clone(), volume.is_block);
        let look = move || {
            let Some((parent, name)) = target.parent().zip(target.file_name()) else { return Ok(false) };
            let Some(folder) = Folder::open(parent)? else { return Ok(false) };
            match folder.stat(name) {
                Ok(found) => Ok(found.is_some() && (is_block || folder.is_mount_point(name)?)),
                // Its driver knows what to do about that.
                Err(error) if is_corrupted(&error) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.run_inside(volume, look).await
    }

    async fn give_to_group(
        &self,
        volume: &Published,
        group: FsGroup,
        progress: &Progress,
    ) -> Result<(), FileError> {
        let (target, progress) = (volume.target.clone(), progress.clone());
        let give = move || match Folder::open(&target)? {
            Some(folder) => give_to_group(&folder, group, Access::ReadWrite, &progress),
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
    match folder? {
        Some(folder) => read_record(&folder),
        None => Ok(None),
    }
}

/// Whether something is mounted of which nobody answers for the files any more.
fn is_corrupted(error: &FileError) -> bool {
    let gone = [Errno::NOTCONN, Errno::STALE, Errno::IO, Errno::ACCESS, Errno::HOSTDOWN];
    Errno::from_io_error(&error.source).is_some_and(|errno| gone.contains(&errno))
}

/// A folder of ours, with everything above it.
fn make(path: &Path) -> Result<Folder, FileError> {
    Folder::make(path, PRIVATE)
}

/// Removes what a driver may have left of a mount point: an empty folder or a file. What is mounted stays and is told of.
fn remove_unmounted(folder: &Folder, name: &OsStr) -> Result<(), FileError> {
    if folder.stat(name)?.is_none() {
        return Ok(());
    }
    let path = folder.path().join(name);
    if folder.is_mount_point(name)? {
        return Err(refused("the driver has left it mounted")).on_path("remove", path);
    }
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => folder.remove_empty(name),
        Err(error) => Err(error).on_path("remove", path),
    }
}

/// Removes a folder unless something is in it.
fn remove_last(path: &Path) -> Result<(), FileError> {
    match rustix::fs::unlinkat(rustix::fs::CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        Err(error) => Err(error).on_path("remove folder", path),
    }
}
