//! Pods of this node at the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use model::{PodFullName, PodUid, StatusUrgency};

use super::{ApiError, FeedStream};

/// Reads and writes pods.
#[async_trait]
pub trait ApiPods: Send + Sync {
    /// Watches all pods bound to this node, in every namespace.
    fn watch(&self) -> FeedStream<core::Pod>;

    /// Reads the current pod.
    async fn get(&self, name: &PodFullName) -> Result<core::Pod, ApiError>;

    /// Creates a (mirror) pod.
    async fn create(&self, pod: &core::Pod) -> Result<core::Pod, ApiError>;

    /// Applies a strategic merge patch to the status subresource and returns the result.
    async fn patch_status(
        &self,
        urgency: StatusUrgency,
        name: &PodFullName,
        patch: &serde_json::Value,
    ) -> Result<core::Pod, ApiError>;

    /// Deletes the pod if it still has that UID.
    async fn delete(&self, name: &PodFullName, uid: &PodUid, grace_seconds: i64) -> Result<(), ApiError>;
}
