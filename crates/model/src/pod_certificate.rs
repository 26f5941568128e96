use std::collections::BTreeMap;
use std::fmt;

use crate::{PodUid, Timestamp};

/// A certificate that a pod requests, with its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateWish {
    pub namespace: String,
    pub pod_name: String,
    /// Its UID.
    pub pod_uid: PodUid,
    pub account: String,
    /// That one's UID.
    pub account_uid: String,
    pub node: String,
    /// Its UID.
    pub node_uid: String,
    pub signer: String,
    /// The kind of key, such as `ED25519`.
    pub key_type: String,
    pub max_expiration_seconds: Option<i32>,
    /// Annotations for the signer.
    pub annotations: BTreeMap<String, String>,
}

/// A request that was made, with the key that only this agent knows.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateRequest {
    pub name: String,
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
    Denied { reason: String, message: String },
    /// It failed for good.
    Failed { reason: String, message: String },
    /// It was signed.
    Issued {
        /// The certificates in PEM form.
        chain: String,
        /// When the next one should be asked for.
        begin_refresh_at: Timestamp,
        not_after: Timestamp,
    },
}

/// A key and its certificates, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub struct PodCertificate {
    pub key: String,
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
