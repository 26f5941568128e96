//! Certificates that pods request.

use async_trait::async_trait;
use model::{CertificateOutcome, CertificateRequest, CertificateWish};

use super::ApiError;

/// Requests certificates; every call has a deadline.
#[async_trait]
pub trait ApiPodCertificates: Send + Sync {
    /// Generates a key and requests its certificate. `Invalid` for an unsupported key type.
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError>;

    /// The state of a request; `None` when it does not exist.
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<CertificateOutcome>, ApiError>;
}
