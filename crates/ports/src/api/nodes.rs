//! The Node object of this machine at the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;

use super::{ApiError, FeedStream};

/// Reads and writes the Node object that stands for this machine; others are out of reach.
#[async_trait]
pub trait ApiNodes: Send + Sync {
    /// The own node: a list of one or none, then its changes.
    fn watch(&self) -> FeedStream<core::Node>;

    /// The own node as it is now.
    async fn get(&self) -> Result<core::Node, ApiError>;

    /// Makes the own node; `AlreadyExists` if there is one.
    async fn create(&self, node: &core::Node) -> Result<core::Node, ApiError>;

    /// Applies a strategic merge patch to the status subresource and returns the node as it is then. Labels and
    /// annotations may be part of the patch, the spec may not.
    async fn patch_status(&self, patch: &serde_json::Value) -> Result<core::Node, ApiError>;
}
