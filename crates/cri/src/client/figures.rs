use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{ContainerId, SandboxId};
use ports::runtime::{RuntimeError, RuntimeFigures};

use super::CriClient;
use super::call::{Deadline, request};
use crate::brief;
use crate::convert::figures;
use crate::v1::{ListContainerStatsRequest, ListContainerStatsResponse, PodSandboxStatusRequest};

#[async_trait]
impl RuntimeFigures for CriClient {
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        let question = ListContainerStatsRequest::default();
        let found: ListContainerStatsResponse =
            self.list("list_container_stats", brief::CONTAINER_STATS, &self.listing, question).await?;
        Ok(found.stats.into_iter().filter_map(figures::writable_layer).collect())
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let message = PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: true };
        let call = async { self.runtime().pod_sandbox_status(request(message, deadline)).await };
        let info = self.answer("podsandbox_status", deadline, call).await?.info;
        Ok(info.get("info").and_then(|text| figures::image(text)))
    }
}
