//! What pods use, for those who judge them by it.

use async_trait::async_trait;
use model::PodUid;
use model::statistics::PodStatistics;

/// What is read of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskParts {
    /// Volumes and logs.
    Files,
    /// Containers' own files as well, for which the runtime is asked.
    FilesAndLayers,
}

/// Reads what pods use. Pods without containers are left out; what could not be measured is absent.
#[async_trait]
pub trait PodStatisticsSource: Send + Sync {
    /// Everything of all pods.
    async fn everything(&self) -> Vec<PodStatistics>;

    /// What these pods take of disks, and nothing else.
    async fn disks(&self, pods: Vec<PodUid>, parts: DiskParts) -> Vec<PodStatistics>;
}
