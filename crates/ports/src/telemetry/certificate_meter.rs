//! Metrics of certificates that the agent renews.

use std::time::Duration;

use model::Timestamp;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUse {
    /// Authenticates the agent to the API server.
    Client,
    /// Authenticates the node API to its clients.
    Serving,
}

/// Counts certificate renewals. Must not block.
pub trait CertificateMeter: Send + Sync {
    /// Expiry of the certificate in use; `None` when there is none yet.
    fn in_use(&self, of: CertificateUse, until: Option<Timestamp>);
    /// A certificate was replaced after this lifetime.
    fn replaced(&self, of: CertificateUse, lived: Duration);
    /// A renewal failed.
    fn not_renewed(&self, of: CertificateUse);
}

impl CertificateMeter for () {
    fn in_use(&self, _: CertificateUse, _: Option<Timestamp>) {}
    fn replaced(&self, _: CertificateUse, _: Duration) {}
    fn not_renewed(&self, _: CertificateUse) {}
}
