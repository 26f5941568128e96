//! PersistentVolumes, their claims, attachments and CSI drivers.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, FeedStream};

use crate::ApiServerAdapter;
use crate::errors::api_error;
use crate::feed::feed;

#[async_trait]
impl ApiVolumes for ApiServerAdapter {
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ApiError> {
        self.namespaced(namespace).get(name).await.map_err(api_error)
    }

    async fn volume(&self, name: &str) -> Result<PersistentVolume, ApiError> {
        self.all().get(name).await.map_err(api_error)
    }

    async fn attachment(&self, name: &str) -> Result<VolumeAttachment, ApiError> {
        self.all().get(name).await.map_err(api_error)
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, ApiError> {
        self.namespaced(namespace).get(name).await.map_err(api_error)
    }

    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<(), ApiError> {
        let api = self.namespaced::<PersistentVolumeClaim>(namespace);
        let patched = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map(drop).map_err(api_error)
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        feed(self.all(), watcher::Config::default())
    }
}
