//! The Node object of this machine.

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

/// [`ApiNodes`] on a real API server.
pub struct NodesAdapter {
    clients: Clients,
    node: String,
}

impl NodesAdapter {
    /// For the node of that name.
    #[must_use]
    pub fn new(clients: Clients, node: String) -> Self {
        Self { clients, node }
    }

    /// The node's status is what its pods are judged by: it does not queue behind them.
    fn urgent(&self) -> Api<core::Node> {
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
        self.urgent().get(&self.node).await.map_err(|error| api_error(&error))
    }

    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError> {
        let api = Api::all(self.clients.main.clone());
        api.create(&PostParams::default(), node).await.map_err(|error| api_error(&error))
    }

    async fn patch_status(&self, patch: &serde_json::Value) -> Result<core::Node, ApiError> {
        let patch = Patch::Strategic(patch);
        let patched = self.urgent().patch_status(&self.node, &PatchParams::default(), &patch).await;
        patched.map_err(|error| api_error(&error))
    }
}
