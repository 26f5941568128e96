//! Claims, persistent volumes and what drivers need of the API server.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use super::{ApiError, FeedStream};

/// Reads what stands behind volumes. A node may read one object at a time here, never list: all but the drivers are
/// open to it only while a pod of its own refers to them.
#[async_trait]
pub trait ApiVolumes: Send + Sync {
    /// A claim.
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ApiError>;

    /// A persistent volume.
    async fn volume(&self, name: &str) -> Result<PersistentVolume, ApiError>;

    /// How a volume is attached to a node.
    async fn attachment(&self, name: &str) -> Result<VolumeAttachment, ApiError>;

    /// A secret that a persistent volume or a pod's volume names.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, ApiError>;

    /// Applies a strategic merge patch to the status of a claim.
    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<(), ApiError>;

    /// All drivers of the cluster.
    fn watch_drivers(&self) -> FeedStream<CSIDriver>;
}
