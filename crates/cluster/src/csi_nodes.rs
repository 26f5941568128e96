//! Reads and writes the CSINode object of this node.

use async_trait::async_trait;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{DeleteParams, PostParams};
use ports::api::ApiError;
use ports::api::csi_nodes::ApiCsiNodes;

use crate::ApiServerAdapter;
use crate::errors::api_error;

#[async_trait]
impl ApiCsiNodes for ApiServerAdapter {
    async fn get(&self) -> Result<CSINode, ApiError> {
        self.all().get(&self.node).await.map_err(api_error)
    }

    async fn create(&self, object: &CSINode) -> Result<(), ApiError> {
        self.all().create(&PostParams::default(), object).await.map(drop).map_err(api_error)
    }

    async fn replace(&self, object: &CSINode) -> Result<(), ApiError> {
        let replaced = self.all().replace(&self.node, &PostParams::default(), object).await;
        replaced.map(drop).map_err(api_error)
    }

    async fn delete(&self) -> Result<(), ApiError> {
        let deleted = self.all::<CSINode>().delete(&self.node, &DeleteParams::default()).await;
        deleted.map(drop).map_err(api_error)
    }
}
