use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use model::{
    ContainerId, ContainerSpec, ContainerStatus, ContainerSummary, ExecOutput, LinuxResources, PodUid,
    SandboxId, SandboxSpec,
};
use ports::runtime::{Containers, RuntimeError, RuntimeErrorKind, ignore_not_found};

use super::call::{Deadline, protocol_violation};
use super::exec_output::ExecChannel;
use super::{CriClient, Runtime};
use crate::convert::{container, labels, resources, sandbox};
use crate::list_calls::{CONTAINERS, ContainerList};
use crate::v1::runtime_service_client::RuntimeServiceClient;
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
        let config = container::config(spec, sandbox_spec.security.user_namespace).map_err(|error| {
            RuntimeError { operation: OPERATION, kind: RuntimeErrorKind::Failed, message: error.to_string() }
        })?;
        let message = CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_string(),
            config: Some(config),
            sandbox_config: Some(sandbox::config(sandbox_spec)),
        };
        let id = self.call(OPERATION, message, Runtime::create_container).await?.container_id;
        if id.is_empty() {
            return Err(protocol_violation(OPERATION, "no container id"));
        }
        Ok(id.into())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let message = StartContainerRequest { container_id: id.to_string() };
        self.call("start_container", message, Runtime::start_container).await.map(drop)
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let seconds = whole_seconds(grace);
        let deadline = Deadline::In(self.request_timeout.saturating_add(Duration::from_secs(seconds)));
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let message = StopContainerRequest { container_id: id.to_string(), timeout };
        let stopped = self.call_within("stop_container", deadline, message, Runtime::stop_container).await;
        ignore_not_found(stopped.map(drop))
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let message = RemoveContainerRequest { container_id: id.to_string() };
        ignore_not_found(self.call("remove_container", message, Runtime::remove_container).await.map(drop))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        const OPERATION: &str = "container_status";
        // Verbose: the process id is only in the `info` map.
        let message = ContainerStatusRequest { container_id: id.to_string(), verbose: true };
        let found = self.call(OPERATION, message, Runtime::container_status).await?;
        let status = found.status.ok_or_else(|| protocol_violation(OPERATION, "no status"))?;
        container::status(status, &found.info).map_err(|missing| protocol_violation(OPERATION, missing.0))
    }

    async fn list_containers(&self, pod: Option<&PodUid>) -> Result<Vec<ContainerSummary>, RuntimeError> {
        let filter = pod
            .map(|uid| ContainerFilter { label_selector: labels::pod_selector(uid), ..Default::default() });
        let message = ListContainersRequest { filter };
        let found: ContainerList = self.list(CONTAINERS, &self.list_channel, message).await?;
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
        let call = self.call_within("checkpoint_container", deadline, message, Runtime::checkpoint_container);
        call.await.map(drop)
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let message = ReopenContainerLogRequest { container_id: id.to_string() };
        self.call("reopen_container_log", message, Runtime::reopen_container_log).await.map(drop)
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
        let mut client = RuntimeServiceClient::new(ExecChannel(self.list_channel.channel.clone()));
        let call = async { client.exec_sync(self.request(message, deadline)).await };
        let found = self.execute("exec_sync", deadline, Box::pin(call)).await?;
        Ok(ExecOutput { exit_code: found.exit_code, stdout: found.stdout, stderr: found.stderr })
    }

    async fn update_resources(&self, id: &ContainerId, limits: &LinuxResources) -> Result<(), RuntimeError> {
        let message = UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(resources::to_cri(limits)),
            ..Default::default()
        };
        self.call("update_container", message, Runtime::update_container_resources).await.map(drop)
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
