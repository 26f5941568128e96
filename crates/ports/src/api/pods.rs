//! Pods of this node at the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use model::{PodFullName, PodUid};

use super::{ApiError, FeedStream};

/// Which lane a write takes when requests queue up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// Readiness changed, or the pod ended: traffic and controllers wait for it.
    Urgent,
    /// Anything else.
    Normal,
}

/// Reads and writes pods.
#[async_trait]
pub trait ApiPods: Send + Sync {
    /// All pods bound to this node, in every namespace.
    fn watch(&self) -> FeedStream<core::Pod>;

    /// The pod as it is now.
    async fn get(&self, name: &PodFullName) -> Result<core::Pod, ApiError>;

    /// Makes a pod (mirror pods).
    async fn create(&self, pod: &core::Pod) -> Result<core::Pod, ApiError>;

    /// Applies a strategic merge patch to the status subresource and returns the pod as it is then.
    async fn patch_status(
        &self,
        urgency: Urgency,
        name: &PodFullName,
        patch: &serde_json::Value,
    ) -> Result<core::Pod, ApiError>;

    /// Deletes the pod if it still has that UID.
    async fn delete(&self, name: &PodFullName, uid: &PodUid, grace_seconds: i64) -> Result<(), ApiError>;
}
