//! Reads and writes the pods of this node.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Api, Client};
use model::{PodFullName, PodUid, StatusUrgency};
use ports::api::pods::ApiPods;
use ports::api::{ApiError, FeedStream};

use crate::Clients;
use crate::errors::api_error;
use crate::feed::feed;

/// Implements [`ApiPods`].
pub struct PodsAdapter {
    clients: Clients,
    node: String,
}

impl PodsAdapter {
    #[must_use]
    pub fn new(clients: Clients, node: String) -> Self {
        Self { clients, node }
    }
}

fn namespaced(client: &Client, name: &PodFullName) -> Api<core::Pod> {
    Api::namespaced(client.clone(), &name.namespace)
}

#[async_trait]
impl ApiPods for PodsAdapter {
    fn watch(&self) -> FeedStream<core::Pod> {
        let selector = format!("spec.nodeName={}", self.node);
        feed(Api::all(self.clients.main.clone()), watcher::Config::default().fields(&selector))
    }

    async fn get(&self, name: &PodFullName) -> Result<core::Pod, ApiError> {
        namespaced(&self.clients.main, name).get(&name.name).await.map_err(|error| api_error(&error))
    }

    async fn create(&self, pod: &core::Pod) -> Result<core::Pod, ApiError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        let api = Api::namespaced(self.clients.main.clone(), namespace);
        api.create(&PostParams::default(), pod).await.map_err(|error| api_error(&error))
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
        let api = namespaced(client, name);
        let patched = api.patch_status(&name.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        patched.map_err(|error| api_error(&error))
    }

    async fn delete(&self, name: &PodFullName, uid: &PodUid, grace_seconds: i64) -> Result<(), ApiError> {
        let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: u32::try_from(grace_seconds).ok(),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let deleted = namespaced(&self.clients.urgent, name).delete(&name.name, &params).await;
        deleted.map(|_| ()).map_err(|error| api_error(&error))
    }
}
