//! The Node object of this machine at the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;

use super::{ApiError, FeedStream};

/// Reads and writes the Node object of this machine only.
#[async_trait]
pub trait ApiNodes: Send + Sync {
    /// Watches the node; a list has one element or none.
    fn watch(&self) -> FeedStream<core::Node>;

    /// Reads the current node.
    async fn get(&self) -> Result<core::Node, ApiError>;

    /// Creates the node; `AlreadyExists` if there is one.
    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError>;

    /// Applies a strategic merge patch to the status subresource and returns the result. Labels and
    /// annotations may be part of the patch, the spec may not.
    async fn patch_status(&self, patch: &serde_json::Value) -> Result<core::Node, ApiError>;
}
