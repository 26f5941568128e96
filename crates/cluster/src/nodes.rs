//! Reads and writes the Node object of this node.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use ports::api::nodes::ApiNodes;
use ports::api::{ApiError, FeedStream};

use crate::Clients;
use crate::errors::api_error;
use crate::feed::feed;

/// Implements [`ApiNodes`].
pub struct NodesAdapter {
    clients: Clients,
    node: String,
}

impl NodesAdapter {
    #[must_use]
    pub fn new(clients: Clients, node: String) -> Self {
        Self { clients, node }
    }

    /// Node status must not queue behind pod requests: without it the control plane evicts the pods.
    fn unqueued(&self) -> Api<core::Node> {
        Api::all(self.clients.heartbeat.clone())
    }
}

#[async_trait]
impl ApiNodes for NodesAdapter {
    fn watch(&self) -> FeedStream<core::Node> {
        let selector = format!("metadata.name={}", self.node);
        feed(Api::all(self.clients.main.clone()), watcher::Config::default().fields(&selector))
    }

    async fn get(&self) -> Result<core::Node, ApiError> {
        self.unqueued().get(&self.node).await.map_err(|error| api_error(&error))
    }

    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError> {
        let api = Api::all(self.clients.main.clone());
        api.create(&PostParams::default(), node).await.map_err(|error| api_error(&error))
    }

    async fn patch_status(&self, patch: &serde_json::Value) -> Result<core::Node, ApiError> {
        let patch = Patch::Strategic(patch);
        let patched = self.unqueued().patch_status(&self.node, &PatchParams::default(), &patch).await;
        patched.map_err(|error| api_error(&error))
    }
}
