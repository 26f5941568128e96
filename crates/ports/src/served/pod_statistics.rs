//! Resource use of pods, for eviction.

use async_trait::async_trait;
use model::PodUid;
use model::statistics::PodStatistics;

/// Which disk use is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskParts {
    /// Volumes and logs.
    Files,
    /// Writable layers as well, which need a call to the runtime.
    FilesAndLayers,
}

/// Reads the resource use of pods. Pods without containers and values that could not be measured are left out.
#[async_trait]
pub trait PodStatisticsSource: Send + Sync {
    /// All statistics of all pods.
    async fn everything(&self) -> Vec<PodStatistics>;

    /// Only the disk use of these pods.
    async fn disks(&self, pods: Vec<PodUid>, parts: DiskParts) -> Vec<PodStatistics>;
}
