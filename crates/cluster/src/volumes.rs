//! Claims, persistent volumes, their attachments and drivers.

use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{
    BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret, ServiceAccount};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use model::CsiPod;
use ports::api::volumes::ApiVolumes;
use ports::api::{ApiError, ApiErrorKind, FeedStream};

use crate::Clients;
use crate::errors::api_error;
use crate::feed::feed;

/// [`ApiVolumes`] on a real API server.
pub struct VolumesAdapter {
    clients: Clients,
}

impl VolumesAdapter {
    /// For the node whose clients these are.
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

    async fn pod_token(
        &self,
        pod: &CsiPod,
        audience: &str,
        expiration_seconds: Option<i64>,
    ) -> Result<TokenRequestStatus, ApiError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.clients.main.clone(), &pod.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(audience).filter(|text| !text.is_empty()).map(|text| vec![text.to_owned()]),
                expiration_seconds,
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name.clone()),
                    uid: Some(pod.uid.to_string()),
                }),
            }),
            ..TokenRequest::default()
        };
        let answer = api.create_token_request(&pod.service_account, &PostParams::default(), &request).await;
        let answer = answer.map_err(|error| api_error(&error))?;
        answer.status.ok_or_else(|| ApiError {
            kind: ApiErrorKind::Server,
            message: "the answer holds no token".to_owned(),
            retry_after: None,
        })
    }

    async fn patch_claim_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<(), ApiError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.clients.main.clone(), namespace);
        let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(|_| ()).map_err(|error| api_error(&error))
    }

    fn watch_drivers(&self) -> FeedStream<CSIDriver> {
        feed(Api::all(self.clients.main.clone()), watcher::Config::default())
    }
}
