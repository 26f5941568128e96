//! Counts of the certificates that the agent renews.

use std::time::Duration;

use model::Timestamp;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUse {
    /// To ask the API server.
    Client,
    /// To answer those who ask the node.
    Serving,
}

/// Is told of certificates that are renewed. Must not block.
pub trait CertificateMeter: Send + Sync {
    /// The one in use is good until then; `None` means that there is none yet.
    fn in_use(&self, of: CertificateUse, until: Option<Timestamp>);
    /// One was changed for a new one after this life.
    fn replaced(&self, of: CertificateUse, lived: Duration);
    /// An attempt to get a new one failed.
    fn not_renewed(&self, of: CertificateUse);
}

impl CertificateMeter for () {
    fn in_use(&self, _: CertificateUse, _: Option<Timestamp>) {}
    fn replaced(&self, _: CertificateUse, _: Duration) {}
    fn not_renewed(&self, _: CertificateUse) {}
}
