//! Cgroups of pods.

use async_trait::async_trait;

use crate::pod_folders::FileError;

/// Makes and removes the cgroup of a pod in every hierarchy (v1) or in the one (v2). Paths are as handed to
/// the runtime, such as `/kubepods/burstable/pod<uid>`.
#[async_trait]
pub trait PodCgroups: Send + Sync {
    /// Makes the cgroup where it is missing.
    async fn ensure(&self, path: &str) -> Result<(), FileError>;

    /// Removes the cgroup with its empty children; an absent one is no failure. Fails while processes remain.
    async fn remove(&self, path: &str) -> Result<(), FileError>;
}
