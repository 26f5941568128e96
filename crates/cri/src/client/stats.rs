use async_trait::async_trait;
use model::usage::WritableLayer;
use model::{ContainerId, SandboxId};
use ports::runtime::{RuntimeError, RuntimeStatisticsSource};

use super::{CriClient, Runtime};
use crate::convert::stats;
use crate::list_calls;
use crate::v1::{ListContainerStatsRequest, ListContainerStatsResponse, PodSandboxStatusRequest};

#[async_trait]
impl RuntimeStatisticsSource for CriClient {
    async fn writable_layers(&self) -> Result<Vec<(ContainerId, WritableLayer)>, RuntimeError> {
        let message = ListContainerStatsRequest::default();
        let found: ListContainerStatsResponse =
            self.list(list_calls::CONTAINER_STATS, &self.list_channel, message).await?;
        Ok(found.stats.into_iter().filter_map(stats::writable_layer).collect())
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let message = PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: true };
        let info = self.call("podsandbox_status", message, Runtime::pod_sandbox_status).await?.info;
        Ok(info.get("info").and_then(|text| stats::image(text)))
    }
}
