//! Reads and writes the Lease of this node.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use ports::api::ApiError;
use ports::api::leases::ApiLeases;

use crate::ApiServerAdapter;
use crate::errors::api_error;

const NAMESPACE: &str = "kube-node-lease";

impl ApiServerAdapter {
    fn lease_api(&self) -> Api<Lease> {
        Api::namespaced(self.clients.heartbeat.clone(), NAMESPACE)
    }
}

#[async_trait]
impl ApiLeases for ApiServerAdapter {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.lease_api().get(&self.node).await.map_err(api_error)
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.lease_api().create(&PostParams::default(), lease).await.map_err(api_error)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let replaced = self.lease_api().replace(&self.node, &PostParams::default(), lease).await;
        replaced.map_err(api_error)
    }
}
