//! Service accounts of pods.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::ApiError;

/// The fields of a ServiceAccount that a node needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Reads service accounts.
#[async_trait]
pub trait ApiServiceAccounts: Send + Sync {
    /// Reads the current account; has a deadline. A node may read only the accounts of its pods.
    async fn get(&self, namespace: &str, name: &str) -> Result<ServiceAccount, ApiError>;
}
