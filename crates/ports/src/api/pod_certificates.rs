//! Certificates that pods ask for.

use async_trait::async_trait;
use model::{CertificateOutcome, CertificateRequest, CertificateWish};

use super::ApiError;

/// Asks for certificates; every call has a deadline.
#[async_trait]
pub trait ApiPodCertificates: Send + Sync {
    /// Makes a key and asks for its certificate. A kind of key that cannot be made is an error of the kind `Invalid`.
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError>;

    /// What became of a request; `None` when there is none of that name.
    async fn get(&self, namespace: &str, name: &str) -> Result<Option<CertificateOutcome>, ApiError>;
}
