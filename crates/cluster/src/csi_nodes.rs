//! Reads and writes the CSINode object of this node.

use async_trait::async_trait;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use ports::api::ApiError;
use ports::api::csi_nodes::ApiCsiNodes;

use crate::Clients;
use crate::errors::api_error;

/// Implements [`ApiCsiNodes`].
pub struct CsiNodesAdapter {
    clients: Clients,
    node: String,
}

impl CsiNodesAdapter {
    #[must_use]
    pub fn new(clients: Clients, node: String) -> Self {
        Self { clients, node }
    }

    fn api(&self) -> Api<CSINode> {
        Api::all(self.clients.main.clone())
    }
}

#[async_trait]
impl ApiCsiNodes for CsiNodesAdapter {
    async fn get(&self) -> Result<CSINode, ApiError> {
        self.api().get(&self.node).await.map_err(|error| api_error(&error))
    }

    async fn create(&self, object: &CSINode) -> Result<(), ApiError> {
        let created = self.api().create(&PostParams::default(), object).await;
        created.map(|_| ()).map_err(|error| api_error(&error))
    }

    async fn replace(&self, object: &CSINode) -> Result<(), ApiError> {
        let replaced = self.api().replace(&self.node, &PostParams::default(), object).await;
        replaced.map(|_| ()).map_err(|error| api_error(&error))
    }

    async fn delete(&self) -> Result<(), ApiError> {
        let deleted = self.api().delete(&self.node, &DeleteParams::default()).await;
        deleted.map(|_| ()).map_err(|error| api_error(&error))
    }
}
