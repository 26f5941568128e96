use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerStatus, ContainerSummary, ExecOutput, LinuxResources, PodUid,
    SandboxId, SandboxSpec,
};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, ignore_not_found};

use super::CriClient;
use super::call::{Deadline, protocol_violation, request};
use super::lists::CONTAINERS;
use crate::convert::{container, labels, resources, sandbox};
use crate::list_calls::{self, ContainerList};
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
        let id = self.execute(OPERATION, deadline, Box::pin(call)).await?.container_id;
        if id.is_empty() {
            return Err(protocol_violation(OPERATION, "no container id"));
        }
        Ok(id.into())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = StartContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().start_container(request(message, deadline)).await };
        self.execute("start_container", deadline, call).await.map(|_| ())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let seconds = whole_seconds(grace);
        let deadline = Deadline::In(self.request_timeout.saturating_add(Duration::from_secs(seconds)));
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let message = StopContainerRequest { container_id: id.to_string(), timeout };
        let call = async { self.runtime().stop_container(request(message, deadline)).await };
        ignore_not_found(self.execute("stop_container", deadline, call).await.map(|_| ()))
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = RemoveContainerRequest { container_id: id.to_string() };
        let call = async { self.runtime().remove_container(request(message, deadline)).await };
        ignore_not_found(self.execute("remove_container", deadline, call).await.map(|_| ()))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        const OPERATION: &str = "container_status";
        let deadline = Deadline::In(self.request_timeout);
        // Verbose: the process id is only in the `info` map.
        let message = ContainerStatusRequest { container_id: id.to_string(), verbose: true };
        let call = async { self.runtime().container_status(request(message, deadline)).await };
        let found = self.execute(OPERATION, deadline, call).await?;
        let status = found.status.ok_or_else(|| protocol_violation(OPERATION, "no status"))?;
        container::status(status, &found.info).map_err(|missing| protocol_violation(OPERATION, missing.0))
    }

    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        let filter = pod
            .map(|uid| ContainerFilter { label_selector: labels::pod_selector(uid), ..Default::default() });
        let message = ListContainersRequest { filter };
        let found: ContainerList =
            self.list(CONTAINERS, list_calls::CONTAINERS, &self.list_channel, message).await?;
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
        self.execute("checkpoint_container", deadline, call).await.map(|_| ())
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = ReopenContainerLogRequest { container_id: id.to_string() };
        let call = async { self.runtime().reopen_container_log(request(message, deadline)).await };
        self.execute("reopen_container_log", deadline, call).await.map(|_| ())
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let seconds = whole_seconds(timeout);
        // Adds time for the runtime to kill the command and respond.
        let deadline = match seconds {
            0 => Deadline::None,
            seconds => Deadline::In(self.request_timeout.saturating_add(Duration::from_secs(seconds))),
        };
        let message = ExecSyncRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let call = async { self.runtime().exec_sync(request(message, deadline)).await };
        let found = self.execute("exec_sync", deadline, call).await?;
        Ok(ExecOutput { exit_code: found.exit_code, stdout: found.stdout, stderr: found.stderr })
    }

    async fn update_resources(&self, id: &ContainerId, limits: &LinuxResources) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources::to_cri(limits)),
            ..Default::default()
        };
        let call = async { self.runtime().update_container_resources(request(message, deadline)).await };
        self.execute("update_container", deadline, call).await.map(|_| ())
    }
}

/// Rounds up to whole seconds, so that a short grace period does not become an immediate kill.
fn whole_seconds(grace: Duration) -> u64 {
    grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_period_is_rounded_up_to_seconds() {
        for (grace, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(grace)), seconds);
        }
    }
}
