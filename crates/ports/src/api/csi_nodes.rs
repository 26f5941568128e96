//! The CSINode object of this node.

use async_trait::async_trait;
use k8s_openapi::api::storage::v1::CSINode;

use super::ApiError;

/// Reads and writes the CSINode of this node.
#[async_trait]
pub trait ApiCsiNodes: Send + Sync {
    /// Reads the current CSINode.
    async fn get(&self) -> Result<CSINode, ApiError>;

    /// Creates it.
    async fn create(&self, object: &CSINode) -> Result<(), ApiError>;

    /// Replaces it, if it has not changed since it was read.
    async fn replace(&self, object: &CSINode) -> Result<(), ApiError>;

    /// Deletes it.
    async fn delete(&self) -> Result<(), ApiError>;
}
