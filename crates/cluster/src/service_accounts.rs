//! Reads service accounts.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use ports::api::ApiError;
use ports::api::service_accounts::{ApiServiceAccounts, ServiceAccount};

use crate::ApiServerAdapter;
use crate::errors::with_deadline;

#[async_trait]
impl ApiServiceAccounts for ApiServerAdapter {
    async fn get(&self, namespace: &str, name: &str) -> Result<ServiceAccount, ApiError> {
        let api = self.namespaced::<core::ServiceAccount>(namespace);
        let metadata = with_deadline(api.get(name)).await?.metadata;
        Ok(ServiceAccount {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        })
    }
}
