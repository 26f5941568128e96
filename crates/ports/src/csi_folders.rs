//! The folders of CSI volumes: where they are staged and published, and what is written down about them.

use std::path::PathBuf;

use async_trait::async_trait;
use model::{CsiLifecycle, FsGroup, PodUid};

use crate::pod_folders::FileError;
use crate::pod_volumes::Progress;

/// What is written down about a volume (`vol_data.json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Name of the PersistentVolume, or of an inline volume in its pod.
    pub spec_name: String,
    /// The driver's name for the volume.
    pub handle: String,
    /// The driver.
    pub driver: String,
    /// This node.
    pub node: String,
    /// Name of the attachment.
    pub attachment: String,
    /// Who made the volume.
    pub lifecycle: CsiLifecycle,
    /// The SELinux label that it is mounted with; without one the files have their own.
    pub label: Option<String>,
}

/// A volume that a pod uses, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The pod.
    pub uid: PodUid,
    /// What is written down.
    pub record: VolumeRecord,
    /// Where the driver publishes it.
    pub target: PathBuf,
    /// Where it is staged, if the driver stages.
    pub staging: PathBuf,
    /// A block device.
    pub is_block: bool,
}

/// A record that is there and cannot be read.
#[derive(Debug)]
pub struct UnreadableRecord {
    /// The pod.
    pub uid: PodUid,
    /// [`VolumeRecord::spec_name`], which is the name of the folder too.
    pub spec_name: String,
    /// Why.
    pub error: FileError,
}

/// What is written down of where a volume is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagingRecord {
    /// Nothing: it is not staged, as far as is known.
    Missing,
    /// This; of a volume that is staged only driver, handle and label are written down.
    Read(VolumeRecord),
    /// Something that makes no sense, such as half a record.
    Corrupt,
}

/// What is written down of volumes.
#[derive(Debug, Default)]
pub struct FoundVolumes {
    /// Volumes that are known.
    pub volumes: Vec<Published>,
    /// Records that say nothing but the name of their volume.
    pub unreadable: Vec<UnreadableRecord>,
}

impl FoundVolumes {
    /// The records of the same volume that other pods have.
    pub fn of_others<'a>(&'a self, volume: &'a Published) -> impl Iterator<Item = &'a VolumeRecord> {
        let own = &volume.record;
        let records = self.volumes.iter().filter(|other| other.uid != volume.uid).map(|other| &other.record);
        records.filter(|record| record.driver == own.driver && record.handle == own.handle)
    }

    /// Whether a pod other than its own may use this volume.
    #[must_use]
    pub fn is_used_by_another(&self, volume: &Published) -> bool {
        let mut unknown = self.unreadable.iter().filter(|other| other.uid != volume.uid);
        self.of_others(volume).next().is_some()
            || unknown.any(|other| other.spec_name == volume.record.spec_name)
    }
}

/// Keeps folders and records. A record is written before the driver is called and removed when the driver has undone
/// everything, so that whatever a killed agent left can be undone by the next.
#[async_trait]
pub trait CsiFolders: Send + Sync {
    /// Where a volume of a pod lies, whether it is there or not.
    fn place(&self, uid: &PodUid, record: VolumeRecord, is_block: bool) -> Published;

    /// Makes the folders of a volume and writes down what it is.
    async fn prepare(&self, volume: &Published) -> Result<(), FileError>;

    /// Makes the folder that a volume is staged in.
    async fn prepare_staging(&self, volume: &Published) -> Result<(), FileError>;

    /// What is written down of where a volume is staged; of a device that is nothing.
    async fn staged(&self, volume: &Published) -> Result<StagingRecord, FileError>;

    /// What is written down of a volume of this pod.
    async fn recorded(&self, volume: &Published) -> Result<Option<VolumeRecord>, FileError>;

    /// Whether something is mounted (for a device: lies) where the volume is published.
    async fn is_published(&self, volume: &Published) -> Result<bool, FileError>;

    /// Gives the files of a published volume to a group.
    async fn give_to_group(
        &self,
        volume: &Published,
        group: FsGroup,
        progress: &Progress,
    ) -> Result<(), FileError>;

    /// All volumes of a pod that is torn down; folders of volumes that no driver was told of are removed.
    async fn of_pod(&self, uid: &PodUid) -> Result<FoundVolumes, FileError>;

    /// All volumes of all pods; changes nothing, as some may just be set up.
    async fn all(&self) -> Result<FoundVolumes, FileError>;

    /// Removes the folder a volume was staged in; fails if something is mounted there.
    async fn remove_staging(&self, volume: &Published) -> Result<(), FileError>;

    /// Removes folder and record of a volume that is published no more; fails if something is mounted there.
    async fn remove(&self, volume: &Published) -> Result<(), FileError>;
}
