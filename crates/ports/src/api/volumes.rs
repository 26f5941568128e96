//! Claims, persistent volumes, attachments, and the secrets of drivers.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};

use super::{ApiError, FeedStream};

/// Reads the objects behind volumes. A node may read only objects that one of its pods refers to, one at a time; only
/// drivers can be listed.
#[async_trait]
pub trait ApiVolumes: Send + Sync {
    /// Reads a claim.
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ApiError>;

    /// Reads a persistent volume.
    async fn volume(&self, name: &str) -> Result<PersistentVolume, ApiError>;

    /// Reads the attachment of a volume to this node.
    async fn attachment(&self, name: &str) -> Result<VolumeAttachment, ApiError>;

    /// Reads a secret that a volume refers to.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, ApiError>;

    /// Applies a strategic merge patch to the status of a claim.
    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<(), ApiError>;

    /// Watches all CSIDrivers.
    fn watch_drivers(&self) -> FeedStream<CSIDriver>;
}
