use async_trait::async_trait;
use model::{LinuxResources, PodUid, SandboxId, SandboxSpec, SandboxStatus, SandboxSummary};
use ports::runtime::{RuntimeError, Sandboxes, ignore_not_found};

use super::CriClient;
use super::call::{Deadline, protocol_violation, request};
use super::lists::SANDBOXES;
use crate::convert::{labels, resources, sandbox};
use crate::list_calls::{self, SandboxList};
use crate::v1::{
    ListPodSandboxRequest, PodSandboxFilter, PodSandboxStatusRequest, RemovePodSandboxRequest,
    RunPodSandboxRequest, StopPodSandboxRequest, UpdatePodSandboxResourcesRequest,
};

#[async_trait]
impl Sandboxes for CriClient {
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        const OPERATION: &str = "run_podsandbox";
        // Twice the timeout: the runtime may pull the sandbox image and set up the network.
        let deadline = Deadline::In(self.request_timeout.saturating_mul(2));
        let message = RunPodSandboxRequest {
            config: Some(sandbox::config(spec)),
            runtime_handler: spec.runtime_handler.clone(),
        };
        let call = async { self.runtime().run_pod_sandbox(request(message, deadline)).await };
        let id = self.execute(OPERATION, deadline, Box::pin(call)).await?.pod_sandbox_id;
        if id.is_empty() {
            return Err(protocol_violation(OPERATION, "no sandbox id"));
        }
        Ok(id.into())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = async { self.runtime().stop_pod_sandbox(request(message, deadline)).await };
        ignore_not_found(self.execute("stop_podsandbox", deadline, call).await.map(|_| ()))
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = async { self.runtime().remove_pod_sandbox(request(message, deadline)).await };
        ignore_not_found(self.execute("remove_podsandbox", deadline, call).await.map(|_| ()))
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        const OPERATION: &str = "podsandbox_status";
        let deadline = Deadline::In(self.request_timeout);
        let message = PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: false };
        let call = async { self.runtime().pod_sandbox_status(request(message, deadline)).await };
        let status = self.execute(OPERATION, deadline, call).await?.status;
        let status = status.ok_or_else(|| protocol_violation(OPERATION, "no status"))?;
        sandbox::status(status).map_err(|missing| protocol_violation(OPERATION, missing.0))
    }

    async fn update_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        sums: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead: Some(resources::to_cri(overhead)),
            resources: Some(resources::to_cri(sums)),
        };
        let call = async { self.runtime().update_pod_sandbox_resources(request(message, deadline)).await };
        self.execute("update_podsandbox_resources", deadline, call).await.map(|_| ())
    }

    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Vec<SandboxSummary>, RuntimeError> {
        let filter = pod
            .map(|uid| PodSandboxFilter { label_selector: labels::pod_selector(uid), ..Default::default() });
        let message = ListPodSandboxRequest { filter };
        let found: SandboxList =
            self.list(SANDBOXES, list_calls::SANDBOXES, &self.list_channel, message).await?;
        Ok(found.items.iter().filter_map(sandbox::summary).collect())
    }
}
