use std::collections::BTreeMap;
use std::fmt;

use crate::{PodUid, Timestamp};

/// A certificate that a pod wants for itself, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateWish {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub pod_name: String,
    /// Its UID.
    pub pod_uid: PodUid,
    /// Its service account.
    pub account: String,
    /// That one's UID.
    pub account_uid: String,
    /// The node's name.
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    /// Who signs.
    pub signer: String,
    /// The kind of key, such as `ED25519`.
    pub key_type: String,
    /// The longest life.
    pub max_expiration_seconds: Option<i32>,
    /// What the user tells the signer.
    pub annotations: BTreeMap<String, String>,
}

/// A request that was made, with the key that only this agent knows.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The private key in PEM form.
    pub key: String,
}

impl fmt::Debug for CertificateRequest {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CertificateRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateOutcome {
    /// Nothing yet.
    Pending,
    /// It was denied for good.
    Denied {
        /// A word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// It failed for good.
    Failed {
        /// A word.
        reason: String,
        /// A sentence.
        message: String,
    },
    /// It was signed.
    Issued {
        /// The certificates in PEM form.
        chain: String,
        /// When the next one should be asked for.
        begin_refresh_at: Timestamp,
        /// When it ends.
        not_after: Timestamp,
    },
}

/// A key and its certificates, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct PodCertificate {
    /// The private key.
    pub key: String,
    /// The certificates.
    pub chain: String,
}

impl fmt::Debug for PodCertificate {
    /// Never shows the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PodCertificate").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// The certificates of a pod by volume and place among its sources, or why they are not there.
pub type ReadCertificates = BTreeMap<(String, usize), Result<PodCertificate, String>>;
