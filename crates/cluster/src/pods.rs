//! Reads and writes the pods of this node.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use model::{PodFullName, PodUid, StatusUrgency};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, FeedStream};

use crate::ApiServerAdapter;
use crate::errors::api_error;
use crate::feed::feed;

#[async_trait]
impl ApiPods for ApiServerAdapter {
    fn watch(&self) -> FeedStream<core::Pod> {
        let selector = format!("spec.nodeName={}", self.node);
        feed(self.all(), watcher::Config::default().fields(&selector))
    }

    async fn get(&self, name: &PodFullName) -> Result<core::Pod, ApiError> {
        self.namespaced(&name.namespace).get(&name.name).await.map_err(api_error)
    }

    async fn create(&self, pod: &core::Pod) -> Result<core::Pod, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        self.namespaced(namespace).create(&PostParams::default(), pod).await.map_err(api_error)
    }

    async fn patch_status(
        &self,
        urgency: StatusUrgency,
        name: &PodFullName,
        patch: &serde_json::Value,
    ) -> Result<core::Pod, ApiError> {
        let client = match urgency {
            StatusUrgency::Urgent => &self.clients.urgent,
            StatusUrgency::Prompt | StatusUrgency::Deferred => &self.clients.main,
        };
        let api = Api::namespaced(client.clone(), &name.namespace);
        let patched = api.patch_status(&name.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map_err(api_error)
    }

    async fn delete(&self, name: &PodFullName, uid: &PodUid, grace_seconds: i64) -> Result<(), ApiError> {
        let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: u32::try_from(grace_seconds).ok(),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let api: Api<core::Pod> = Api::namespaced(self.clients.urgent.clone(), &name.namespace);
        api.delete(&name.name, &params).await.map(drop).map_err(api_error)
    }
}
