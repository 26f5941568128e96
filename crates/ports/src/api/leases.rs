//! The lease of this node at the API server.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;

use super::ApiError;

/// Reads and writes the lease that shows that this node is alive. Uses a separate connection, so that no other request
/// delays it.
#[async_trait]
pub trait ApiLeases: Send + Sync {
    /// Reads the current lease.
    async fn get(&self) -> Result<Lease, ApiError>;

    /// Creates the lease.
    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError>;

    /// Replaces the lease; `Conflict` if it changed since it was read.
    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError>;
}
