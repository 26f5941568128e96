//! Reads and writes the Node object of this node.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use ports::api::nodes::ApiNodes;
use ports::api::{ApiError, FeedStream};

use crate::ApiServerAdapter;
use crate::errors::api_error;
use crate::feed::feed;

impl ApiServerAdapter {
    /// Node status must not queue behind pod requests: without it the control plane evicts the pods.
    fn unqueued(&self) -> Api<core::Node> {
        Api::all(self.clients.heartbeat.clone())
    }
}

#[async_trait]
impl ApiNodes for ApiServerAdapter {
    fn watch(&self) -> FeedStream<core::Node> {
        let selector = format!("metadata.name={}", self.node);
        feed(self.all(), watcher::Config::default().fields(&selector))
    }

    async fn get(&self) -> Result<core::Node, ApiError> {
        self.unqueued().get(&self.node).await.map_err(api_error)
    }

    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError> {
        self.all().create(&PostParams::default(), node).await.map_err(api_error)
    }

    async fn patch_status(&self, patch: &serde_json::Value) -> Result<core::Node, ApiError> {
        let patch = Patch::Strategic(patch);
        let patched = self.unqueued().patch_status(&self.node, &PatchParams::default(), &patch).await;
        patched.map_err(api_error)
    }
}
