//! The folders of CSI volumes and their records on disk.

use std::path::PathBuf;

use async_trait::async_trait;
use model::{CsiLifecycle, FsGroup, PodUid};

use crate::host::pod_folders::FileError;
use crate::host::pod_volumes::Progress;

/// The record of a volume (`vol_data.json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Name of the PersistentVolume, or of an inline volume in its pod.
    pub spec_name: String,
    /// The driver's ID of the volume.
    pub handle: String,
    /// The driver.
    pub driver: String,
    /// This node.
    pub node: String,
    /// Name of the attachment.
    pub attachment: String,
    /// Persistent or inline.
    pub lifecycle: CsiLifecycle,
    /// The SELinux label of the mount; `None` if the files have their own labels.
    pub label: Option<String>,
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The pod.
    pub uid: PodUid,
    /// The record on disk.
    pub record: VolumeRecord,
    /// The path at which the driver publishes it.
    pub target: PathBuf,
    /// The path at which it is staged, if the driver stages.
    pub staging: PathBuf,
    /// Whether it is a block device.
    pub is_block: bool,
}

/// A record that exists and cannot be read.
#[derive(Debug)]
pub struct UnreadableRecord {
    /// The pod.
    pub uid: PodUid,
    /// [`VolumeRecord::spec_name`], which is also the name of the folder.
    pub spec_name: String,
    /// The reason.
    pub error: FileError,
}

/// The record of a staged volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingRecord {
    /// There is none: the volume is not staged.
    Missing,
    /// The record. Only driver, handle and label are recorded for a staged volume.
    Read(VolumeRecord),
    /// The record is damaged, for instance truncated.
    Corrupt,
}

/// The volumes found on disk.
#[derive(Debug, Default)]
pub struct FoundVolumes {
    /// Volumes with a readable record.
    pub volumes: Vec<Published>,
    /// Volumes of which only the name is known.
    pub unreadable: Vec<UnreadableRecord>,
}

impl FoundVolumes {
    /// The records of the same volume in other pods.
    pub fn of_others<'a>(&'a self, volume: &'a Published) -> impl Iterator<Item = &'a VolumeRecord> {
        let own = &volume.record;
        let records = self.volumes.iter().filter(|other| other.uid != volume.uid).map(|other| &other.record);
        records.filter(|record| record.driver == own.driver && record.handle == own.handle)
    }

    /// Whether another pod may use this volume.
    #[must_use]
    pub fn is_used_by_another(&self, volume: &Published) -> bool {
        let mut unknown = self.unreadable.iter().filter(|other| other.uid != volume.uid);
        self.of_others(volume).next().is_some()
            || unknown.any(|other| other.spec_name == volume.record.spec_name)
    }
}

/// Manages folders and records. A record is written before the driver is called and removed when the driver has undone
/// everything, so that the agent can clean up after it was killed.
#[async_trait]
pub trait CsiFolders: Send + Sync {
    /// The paths of a volume of a pod, whether it exists or not.
    fn locate(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published;

    /// Creates the folders of a volume and writes its record.
    async fn prepare(&self, volume: &Published) -> Result<(), FileError>;

    /// Creates the staging folder of a volume.
    async fn prepare_staging(&self, volume: &Published) -> Result<(), FileError>;

    /// The record of a staged volume; block devices have none.
    async fn staged(&self, volume: &Published) -> Result<StagingRecord, FileError>;

    /// The record of a volume of this pod.
    async fn recorded(&self, volume: &Published) -> Result<Option<VolumeRecord>, FileError>;

    /// Whether the volume is mounted at its target; for a block device, whether the device file exists.
    async fn is_published(&self, volume: &Published) -> Result<bool, FileError>;

    /// Changes the group of the files of a published volume.
    async fn set_group(
        &self,
        volume: &Published,
        group: FsGroup,
        progress: &Progress,
    ) -> Result<(), FileError>;

    /// All volumes of a pod that is torn down. Removes folders of volumes for which no driver was called.
    async fn of_pod(&self, uid: &PodUid) -> Result<FoundVolumes, FileError>;

    /// All volumes of all pods. Changes nothing, because some may be in the middle of their setup.
    async fn all(&self) -> Result<FoundVolumes, FileError>;

    /// Removes the staging folder of a volume; fails if something is mounted there.
    async fn remove_staging(&self, volume: &Published) -> Result<(), FileError>;

    /// Removes folder and record of an unpublished volume; fails if something is mounted there.
    async fn remove(&self, volume: &Published) -> Result<(), FileError>;
}
