//! Objects of dynamic resource allocation.

use async_trait::async_trait;
use k8s_openapi::api::resource::v1::ResourceClaim;

use super::ApiError;

/// Reads the claims of the node's pods, and deletes what drivers published for the node.
#[async_trait]
pub trait ApiResourceClaims: Send + Sync {
    /// Reads a claim of one of the node's pods.
    async fn resource_claim(&self, namespace: &str, name: &str) -> Result<ResourceClaim, ApiError>;

    /// Deletes the ResourceSlices of this node: those of one driver, or all.
    async fn delete_slices(&self, driver: Option<&str>) -> Result<(), ApiError>;
}
