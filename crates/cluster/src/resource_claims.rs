//! ResourceClaims, and the ResourceSlices of this node.

use async_trait::async_trait;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{DeleteParams, ListParams};
use ports::api::ApiError;
use ports::api::resource_claims::ApiResourceClaims;

use crate::ApiServerAdapter;
use crate::errors::{api_error, with_deadline};

#[async_trait]
impl ApiResourceClaims for ApiServerAdapter {
    async fn resource_claim(&self, namespace: &str, name: &str) -> Result<ResourceClaim, ApiError> {
        with_deadline(self.namespaced(namespace).get(name)).await
    }

    async fn delete_slices(&self, driver: Option<&str>) -> Result<(), ApiError> {
        let selector = match driver {
            Some(driver) => format!("spec.nodeName={},spec.driver={driver}", self.node),
            None => format!("spec.nodeName={}", self.node),
        };
        let slices = self.all::<ResourceSlice>();
        let chosen = ListParams::default().fields(&selector);
        let deleted = slices.delete_collection(&DeleteParams::default(), &chosen).await;
        deleted.map(drop).map_err(api_error)
    }
}
