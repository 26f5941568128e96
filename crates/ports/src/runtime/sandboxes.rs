use async_trait::async_trait;
use model::{LinuxResources, PodUid, SandboxId, SandboxSpec, SandboxStatus, SandboxSummary};

use super::RuntimeError;

/// Pod sandboxes of the runtime. Every call has its own deadline inside the adapter.
#[async_trait]
pub trait Sandboxes: Send + Sync {
    /// Creates and starts a sandbox. A failure may leave a partly created sandbox, which the next list shows.
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError>;

    /// Stops the sandbox and every container in it; a stopped or unknown sandbox is not a failure.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// Removes the sandbox with its containers; an unknown sandbox is not a failure.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// Full status of one sandbox.
    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError>;

    /// Updates the sums of container resources and overhead; `Unimplemented` where the runtime does not use them.
    async fn update_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError>;

    /// All sandboxes that carry a pod UID label, or those of one pod. Sandboxes of other clients are left out.
    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Vec<SandboxSummary>, RuntimeError>;
}
