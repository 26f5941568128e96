//! PersistentVolumes, their claims, attachments and CSI drivers.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, FeedStream};

use crate::Clients;
use crate::errors::api_error;
use crate::feed::feed;

/// Implements [`ApiVolumes`].
pub struct VolumesAdapter {
    clients: Clients,
}

impl VolumesAdapter {
    #[must_use]
    pub fn new(clients: Clients) -> Self {
        Self { clients }
    }
}

#[async_trait]
impl ApiVolumes for VolumesAdapter {
    async fn claim(&self, namespace: &str, name: &str) -> Result<PersistentVolumeClaim, ApiError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.clients.main.clone(), namespace);
        api.get(name).await.map_err(|error| api_error(&error))
    }

    async fn volume(&self, name: &str) -> Result<PersistentVolume, ApiError> {
        let api: Api<PersistentVolume> = Api::all(self.clients.main.clone());
        api.get(name).await.map_err(|error| api_error(&error))
    }

    async fn attachment(&self, name: &str) -> Result<VolumeAttachment, ApiError> {
        let api: Api<VolumeAttachment> = Api::all(self.clients.main.clone());
        api.get(name).await.map_err(|error| api_error(&error))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Secret, ApiError> {
        let api: Api<Secret> = Api::namespaced(self.clients.main.clone(), namespace);
        api.get(name).await.map_err(|error| api_error(&error))
    }

    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<(), ApiError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.clients.main.clone(), namespace);
        let patched = api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map(|_| ()).map_err(|error| api_error(&error))
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        feed(Api::all(self.clients.main.clone()), watcher::Config::default())
    }
}
