use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerStatus, ContainerSummary, ExecOutput, LinuxResources, PodUid,
    SandboxId, SandboxSpec,
};

use super::{RuntimeError, RuntimeErrorKind};

/// Containers of the runtime. Every call has its own deadline inside the adapter.
#[async_trait]
pub trait Containers: Send + Sync {
    /// Creates a container in a ready sandbox without starting it.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        spec: &ContainerSpec,
        sandbox_spec: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError>;

    /// Starts a created container.
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Sends the stop signal, and kills the container after `grace`. Returns when it has exited; a stopped or unknown
    /// container is not a failure.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError>;

    /// Removes a container, killing it if it runs; an unknown container is not a failure.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Full status of one container. `ContainerStatus::sandbox_id` is empty here, because only lists have it.
    /// The process ID is set where the runtime's verbose status names it.
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError>;

    /// All containers that carry a pod UID label, or those of one pod. Containers of other clients are left out.
    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError>;

    /// Makes the runtime reopen the log file after a rotation.
    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Runs a command in a running container. Past `timeout` the runtime kills it and the call fails with
    /// `DeadlineExceeded`; zero means no limit. A non-zero exit code is not a failure of the call.
    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError>;

    /// Changes the limits of a created or running container.
    async fn update_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError>;

    /// Writes the state of a running container to a file; the container keeps running. A zero timeout means the default
    /// deadline.
    async fn checkpoint_container(
        &self,
        _id: &ContainerId,
        _file: &Path,
        _timeout: Duration,
    ) -> Result<(), RuntimeError> {
        Err(RuntimeError {
            operation: "checkpoint_container",
            kind: RuntimeErrorKind::Unimplemented,
            message: "this runtime does not support checkpoints".to_owned(),
        })
    }
}
