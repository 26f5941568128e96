//! Cgroups of pods.

use async_trait::async_trait;
use model::CgroupLimits;

use crate::pod_folders::FileError;

/// Makes and removes the cgroup of a pod in every hierarchy (v1) or in the one (v2). Paths are as handed to
/// the runtime, such as `/kubepods/burstable/pod<uid>`.
#[async_trait]
pub trait PodCgroups: Send + Sync {
    /// Makes the cgroup where it is missing and brings its limits to `limits`. A limit that stands already is
    /// not written again, so a cgroup in use is not disturbed; one whose controller the machine lacks is
    /// skipped. Fails when the cgroup cannot be made or the kernel refuses a limit.
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError>;

    /// Removes the cgroup with its empty children; an absent one is no failure. Fails while processes remain.
    async fn remove(&self, path: &str) -> Result<(), FileError>;
}
