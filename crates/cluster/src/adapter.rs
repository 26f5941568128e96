//! The adapter of the API server. The ports that it implements are in one file per kind of object.

use std::sync::Arc;

use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use tokio::sync::Semaphore;

use crate::Clients;

/// Generating an RSA key takes one CPU core for seconds, which is then missing for pods.
const MAX_CONCURRENT_RSA_KEYS: usize = 1;

/// Implements the ports in `ports::api` for one node.
pub struct ApiServerAdapter {
    pub(crate) clients: Clients,
    pub(crate) node: String,
    pub(crate) rsa_key_limiter: Arc<Semaphore>,
}

impl ApiServerAdapter {
    #[must_use]
    pub fn new(clients: Clients, node: String) -> Self {
        Self { clients, node, rsa_key_limiter: Arc::new(Semaphore::new(MAX_CONCURRENT_RSA_KEYS)) }
    }

    /// Accesses objects without a namespace, or those of all namespaces.
    pub(crate) fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.clients.main.clone())
    }

    pub(crate) fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.clients.main.clone(), namespace)
    }
}
