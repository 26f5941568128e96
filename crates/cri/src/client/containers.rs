use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerStatus, ContainerSummary, ExecOutput, LinuxResources, PodUid,
    SandboxId, SandboxSpec,
};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, ignore_not_found};

use super::CriClient;
use super::call::{Deadline, broken, request};
use super::lists::CONTAINERS;
use crate::brief::{self, ContainerList};
use crate::convert::{container, labels, resources, sandbox};
use crate::v1::{
    CheckpointContainerRequest, ContainerFilter, ContainerStatusRequest, CreateContainerRequest,
    ExecSyncRequest, ListContainersRequest, RemoveContainerRequest, ReopenContainerLogRequest,
    StartContainerRequest, StopContainerRequest, UpdateContainerResourcesRequest,
};

#[async_trait]
impl Containers for CriClient {
    async fn create_container(
        &self,
        sandbox_id: &SandboxId,
        spec: &ContainerSpec,
        sandbox_spec: &SandboxSpec,
    ) -> Result<ContainerId, RuntimeError> {
        const OPERATION: &str = "create_container";
        let deadline = Deadline::In(self.request_timeout);
        let config = container::config(spec, sandbox_spec.security.user_namespace).map_err(|error| {
            RuntimeError { operation: OPERATION, kind: RuntimeErrorKind::Failed, message: error.to_string() }
        })?;
        let message = CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_string(),
            config: Some(config),
            sandbox_config: Some(sandbox::config(sandbox_spec)),
        };
        let call = async { self.runtime().create_container(request(message, deadline)).await };
        let id = self.answer(OPERATION, deadline, Box::pin(call)).await?.container_id;
        if id.is_empty() {
            return Err(broken(OPERATION, "no container id"));
        }
        Ok(id.into())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = StartContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().start_container(request(message, deadline)).await };
        self.answer("start_container", deadline, call).await.map(|_| ())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let seconds = whole_seconds(grace);
        let deadline = Deadline::In(self.request_timeout.saturating_add(Duration::from_secs(seconds)));
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let message = StopContainerRequest { container_id: id.to_string(), timeout };
        let call = async { self.runtime().stop_container(request(message, deadline)).await };
        ignore_not_found(self.answer("stop_container", deadline, call).await.map(|_| ()))
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = RemoveContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().remove_container(request(message, deadline)).await };
        ignore_not_found(self.answer("remove_container", deadline, call).await.map(|_| ()))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        const OPERATION: &str = "container_status";
        let deadline = Deadline::In(self.request_timeout);
        // Verbose, for the process id.
        let message = ContainerStatusRequest { container_id: id.to_string(), verbose: true };
        let call = async { self.runtime().container_status(request(message, deadline)).await };
        let found = self.answer(OPERATION, deadline, call).await?;
        let status = found.status.ok_or_else(|| broken(OPERATION, "no status"))?;
        container::status(status, &found.info).map_err(|gap| broken(OPERATION, gap.0))
    }

    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        let filter =
            pod.map(|uid| ContainerFilter { label_selector: labels::of_pod(uid), ..Default::default() });
        let question = ListContainersRequest { filter };
        let found: ContainerList = self.list(CONTAINERS, brief::CONTAINERS, &self.listing, question).await?;
        Ok(found.containers.iter().filter_map(container::summary).collect())
    }

    async fn checkpoint_container(
        &self,
        id: &ContainerId,
        file: &Path,
        timeout: Duration,
    ) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout.max(timeout));
        let message = CheckpointContainerRequest {
            container_id: id.to_string(),
            location: file.display().to_string(),
            timeout: i64::try_from(whole_seconds(timeout)).unwrap_or(i64::MAX),
        };
        let call = async { self.runtime().checkpoint_container(request(message, deadline)).await };
        self.answer("checkpoint_container", deadline, call).await.map(|_| ())
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = ReopenContainerLogRequest { container_id: id.to_string() };
        let call = async { self.runtime().reopen_container_log(request(message, deadline)).await };
        self.answer("reopen_container_log", deadline, call).await.map(|_| ())
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let seconds = whole_seconds(timeout);
        // The runtime needs time of its own to kill the command and to say so.
        let deadline = match seconds {
            0 => Deadline::None,
            limited => Deadline::In(self.request_timeout.saturating_add(Duration::from_secs(limited))),
        };
        let message = ExecSyncRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let call = async { self.runtime().exec_sync(request(message, deadline)).await };
        let found = self.answer("exec_sync", deadline, call).await?;
        Ok(ExecOutput { exit_code: found.exit_code, stdout: found.stdout, stderr: found.stderr })
    }

    async fn update_resources(&self, id: &ContainerId, limits: &LinuxResources) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources::limits(limits)),
            ..Default::default()
        };
        let call = async { self.runtime().update_container_resources(request(message, deadline)).await };
        self.answer("update_container", deadline, call).await.map(|_| ())
    }
}

/// The runtime counts whole seconds; a part of one must not become an instant kill.
fn whole_seconds(grace: Duration) -> u64 {
    grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_grace_does_not_become_none() {
        for (grace, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(grace)), seconds);
        }
    }
}
