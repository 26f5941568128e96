//! Whose client certificate it is.

use model::User;

/// A certificate that is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotBelieved(pub String);

/// Knows the authorities of client certificates.
pub trait ClientCertificates: Send + Sync {
    /// The owner of a chain of DER certificates, the leaf first; its key was proved by the connection. Does not wait.
    ///
    /// # Errors
    /// When none of the authorities answers for it now, or it names nobody.
    fn owner(&self, chain: &[&[u8]]) -> Result<User, NotBelieved>;
}
