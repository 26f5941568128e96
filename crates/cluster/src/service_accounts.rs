//! Reads service accounts.

use async_trait::async_trait;
use k8s_openapi::api::core::v1 as core;
use kube::{Api, Client};
use ports::api::ApiError;
use ports::api::service_accounts::{ApiServiceAccounts, ServiceAccount};

use crate::Clients;
use crate::deadline::with_deadline;

/// Implements [`ApiServiceAccounts`].
pub struct ServiceAccountsAdapter {
    client: Client,
}

impl ServiceAccountsAdapter {
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }
}

#[async_trait]
impl ApiServiceAccounts for ServiceAccountsAdapter {
    async fn get(&self, namespace: &str, name: &str) -> Result<ServiceAccount, ApiError> {
        let api: Api<core::ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let metadata = with_deadline(api.get(name)).await?.metadata;
        Ok(ServiceAccount {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        })
    }
}
