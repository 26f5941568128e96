//! Cgroups of processes that belong to no pod.

use async_trait::async_trait;
use model::SystemProcesses;

use crate::host::pod_folders::FileError;

/// Moves processes of the machine between cgroups, in every hierarchy (v1) or in the unified one (v2).
#[async_trait]
pub trait SystemCgroups: Send + Sync {
    /// The agent's process and the processes in the root cgroup. On failure nothing must be moved.
    async fn processes(&self) -> Result<SystemProcesses, FileError>;

    /// Moves a process into a cgroup, which is created where it is missing. A process that has exited is not a failure. After a
    /// failure the process may have been moved in some hierarchies.
    async fn enter(&self, pid: u32, path: &str) -> Result<(), FileError>;
}
