//! Cgroups of processes that belong to no pod.

use async_trait::async_trait;
use model::SystemProcesses;

use crate::pod_folders::FileError;

/// Moves processes of the machine between cgroups, in every hierarchy (v1) or in the one (v2).
#[async_trait]
pub trait SystemCgroups: Send + Sync {
    /// The agent's process and those in the root cgroup. Fails when the kernel does not tell; nothing is to be moved then.
    async fn processes(&self) -> Result<SystemProcesses, FileError>;

    /// Moves a process into the cgroup, which is made where it is missing. A process that is gone is no failure. Fails when
    /// the kernel refuses; the process may have been moved in some hierarchies.
    async fn enter(&self, pid: u32, path: &str) -> Result<(), FileError>;
}
