//! Cgroups of pods and their parents.

use async_trait::async_trait;
use model::CgroupLimits;

use crate::host::pod_folders::FileError;

/// Cgroups in every hierarchy (v1) or in the unified one (v2). Paths are as passed to the runtime, such as
/// `/kubepods/burstable/pod<uid>`.
#[async_trait]
pub trait PodCgroups: Send + Sync {
    /// Creates the cgroup where it is missing and sets its limits. A limit that is already in force is not written again;
    /// one whose controller the machine lacks is skipped. Fails when the cgroup cannot be created or the kernel rejects a
    /// limit.
    async fn ensure(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError>;

    /// Sets the limits of an existing cgroup in the same way. Fails when it does not exist.
    async fn set(&self, path: &str, limits: &CgroupLimits) -> Result<(), FileError>;

    /// Whether the cgroup exists in every hierarchy.
    async fn exists(&self, path: &str) -> Result<bool, FileError>;

    /// CPU and memory limits in force. An unlimited quota is -1, other unlimited values are `None`.
    async fn limits(&self, path: &str) -> Result<CgroupLimits, FileError>;

    /// Memory used by the cgroup in bytes.
    async fn memory_usage(&self, path: &str) -> Result<u64, FileError>;

    /// Names of the child cgroups in any hierarchy; empty when the cgroup does not exist.
    async fn children(&self, path: &str) -> Result<Vec<String>, FileError>;

    /// Kills every process in the cgroup and below, except the agent itself. Does not wait until they have exited.
    async fn kill_processes(&self, path: &str) -> Result<(), FileError>;

    /// Removes the cgroup with its empty children; a missing one is not a failure. Fails while processes remain.
    async fn remove(&self, path: &str) -> Result<(), FileError>;
}
