//! The lease of this node at the API server.

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;

use super::ApiError;

/// Reads and writes the lease that proves that this node lives. Takes a lane of its own: no other request is ever
/// waited for.
#[async_trait]
pub trait ApiLeases: Send + Sync {
    /// The lease as it is now.
    async fn get(&self) -> Result<Lease, ApiError>;

    /// Makes the lease.
    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError>;

    /// Replaces the lease; `Conflict` if it changed since it was read.
    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError>;
}
