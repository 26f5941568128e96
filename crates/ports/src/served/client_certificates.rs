//! Verification of client certificates.

use model::User;

/// A certificate that no authority vouches for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UntrustedCertificate(pub String);

/// Verifies client certificates.
pub trait ClientCertificates: Send + Sync {
    /// The owner of a chain of DER certificates, the leaf first. TLS has already proved the possession of the key. Does not
    /// block.
    ///
    /// # Errors
    /// When no authority vouches for the certificate now, or when it names no user.
    fn owner(&self, chain: &[&[u8]]) -> Result<User, UntrustedCertificate>;
}
