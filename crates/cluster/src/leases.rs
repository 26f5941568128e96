//! Reads and writes the Lease of this node.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use ports::api::ApiError;
use ports::api::leases::ApiLeases;

use crate::Clients;
use crate::errors::api_error;

const NAMESPACE: &str = "kube-node-lease";

/// Implements [`ApiLeases`].
pub struct LeasesAdapter {
    api: Api<Lease>,
    node: String,
}

impl LeasesAdapter {
    #[must_use]
    pub fn new(clients: &Clients, node: String) -> Self {
        Self { api: Api::namespaced(clients.heartbeat.clone(), NAMESPACE), node }
    }
}

#[async_trait]
impl ApiLeases for LeasesAdapter {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.api.get(&self.node).await.map_err(|error| api_error(&error))
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.api.create(&PostParams::default(), lease).await.map_err(|error| api_error(&error))
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let replaced = self.api.replace(&self.node, &PostParams::default(), lease).await;
        replaced.map_err(|error| api_error(&error))
    }
}
