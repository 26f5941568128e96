//! Cgroups of pods, and those above them.

use async_trait::async_trait;
use model::CgroupLimits;

use crate::pod_folders::FileError;

/// Cgroups in every hierarchy (v1) or in the one (v2). Paths are as handed to the runtime, such as
/// `/kubepods/burstable/pod<uid>`.
#[async_trait]
pub trait PodCgroups: Send + Sync {
    /// Makes the cgroup where it is missing and brings its limits to `limits`. A limit that stands already is
    /// not written again, so a cgroup in use is not disturbed; one whose controller the machine lacks is
    /// skipped. Fails when the cgroup cannot be made or the kernel refuses a limit.
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError>;

    /// Brings the limits of a cgroup to `limits`, likewise. Fails when it does not exist.
    async fn set(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError>;

    /// Whether the cgroup exists wherever it should; one that was half removed does not.
    async fn exists(&self, path: &str) -> Result<bool, FileError>;

    /// CPU and memory limits in force; what is not limited is `None`, except the quota, which is -1.
    async fn limits(&self, path: &str) -> Result<CgroupLimits, FileError>;

    /// Memory used by the cgroup in bytes.
    async fn memory_usage(&self, path: &str) -> Result<u64, FileError>;

    /// Names of the cgroups directly below, in whichever hierarchy; none below one that does not exist.
    async fn children(&self, path: &str) -> Result<Vec<String>, FileError>;

    /// Kills every process in the cgroup and below, except the caller itself. Success does not mean that they
    /// are gone already.
    async fn kill_processes(&self, path: &str) -> Result<(), FileError>;

    /// Removes the cgroup with its empty children; an absent one is no failure. Fails while processes remain.
    async fn remove(&self, path: &str) -> Result<(), FileError>;
}
