//! What this node's drivers tell the cluster about it.

use async_trait::async_trait;
use k8s_openapi::api::storage::v1::CSINode;

use super::ApiError;

/// Reads and writes the CSINode of this node.
#[async_trait]
pub trait ApiCsiNodes: Send + Sync {
    /// The CSINode as it is now.
    async fn get(&self) -> Result<CSINode, ApiError>;

    /// Makes it.
    async fn create(&self, object: &CSINode) -> Result<(), ApiError>;

    /// Replaces it, if it has not changed since it was read.
    async fn replace(&self, object: &CSINode) -> Result<(), ApiError>;

    /// Deletes it.
    async fn delete(&self) -> Result<(), ApiError>;
}
