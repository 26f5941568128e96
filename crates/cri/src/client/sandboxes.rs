use async_trait::async_trait;
use model::{LinuxResources, PodUid, SandboxId, SandboxSpec, SandboxStatus, SandboxSummary};
use ports::runtime::{RuntimeError, Sandboxes, ignore_not_found};

use super::call::{Deadline, protocol_violation};
use super::call_limits::CallLimit;
use super::{CriClient, Runtime};
use crate::convert::{labels, resources, sandbox};
use crate::list_calls::{SANDBOXES, SandboxList};
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
        let call = Box::pin(self.call_within(OPERATION, deadline, message, Runtime::run_pod_sandbox));
        let id = self.limits.run(CallLimit::Sandbox(spec.urgency), call).await?.pod_sandbox_id;
        if id.is_empty() {
            return Err(protocol_violation(OPERATION, "no sandbox id"));
        }
        Ok(id.into())
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let message = StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        ignore_not_found(self.call("stop_podsandbox", message, Runtime::stop_pod_sandbox).await.map(drop))
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let message = RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        ignore_not_found(self.call("remove_podsandbox", message, Runtime::remove_pod_sandbox).await.map(drop))
    }

    async fn sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        const OPERATION: &str = "podsandbox_status";
        let message = PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: false };
        let status = self.call(OPERATION, message, Runtime::pod_sandbox_status).await?.status;
        let status = status.ok_or_else(|| protocol_violation(OPERATION, "no status"))?;
        sandbox::status(status).map_err(|missing| protocol_violation(OPERATION, missing.0))
    }

    async fn update_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        sums: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let message = UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead: Some(resources::to_cri(overhead)),
            resources: Some(resources::to_cri(sums)),
        };
        let call = self.call("update_podsandbox_resources", message, Runtime::update_pod_sandbox_resources);
        call.await.map(drop)
    }

    async fn list_sandboxes(&self, pod: Option<&PodUid>) -> Result<Vec<SandboxSummary>, RuntimeError> {
        let filter = pod
            .map(|uid| PodSandboxFilter { label_selector: labels::pod_selector(uid), ..Default::default() });
        let message = ListPodSandboxRequest { filter };
        let found: SandboxList = self.list(SANDBOXES, &self.list_channel, message).await?;
        Ok(found.items.iter().filter_map(sandbox::summary).collect())
    }
}
