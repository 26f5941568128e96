//! Submits CertificateSigningRequests and waits until they are signed or rejected.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use ports::api::{ApiError, ApiErrorKind};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use sha2::{Digest, Sha512_256};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::credential::CertificateNames;
use crate::errors::api_error;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    #[error("create certificate request: {0}")]
    CreateRequest(#[from] rcgen::Error),
    #[error("certificate request: {0}")]
    Api(ApiError),
    #[error("certificate request {name} was {outcome}: {message}")]
    Rejected {
        name: String,
        /// `denied` or `not signed`.
        outcome: &'static str,
        message: String,
    },
    #[error("certificate request {0} already exists and belongs to another key or signer")]
    NotOurs(String),
    #[error("certificate request {0} was deleted")]
    Deleted(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Authenticates the node to the API server.
    Client,
    /// Authenticates the node's own server to its clients.
    Serving,
}

impl Purpose {
    fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// Same as upstream for keys that cannot encrypt.
    fn usages(self) -> [&'static str; 2] {
        match self {
            Self::Client => ["digital signature", "client auth"],
            Self::Serving => ["digital signature", "server auth"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsrNaming {
    /// A hash of the content, so that a restarted agent finds its earlier request.
    FromContent,
    GeneratedByServer,
}

/// Returns the subject of a node's certificates.
pub(crate) fn node_names(node: &str) -> CertificateNames {
    CertificateNames {
        common_name: format!("system:node:{node}"),
        organizations: vec!["system:nodes".to_owned()],
        ..CertificateNames::default()
    }
}

/// A request that exists in the API server.
pub(crate) struct SubmittedRequest {
    name: String,
    uid: String,
    api: Api<CertificateSigningRequest>,
}

/// Creates the request for a certificate on `key`, or finds the existing one.
pub(crate) async fn submit(
    client: Client,
    purpose: Purpose,
    naming: CsrNaming,
    names: &CertificateNames,
    key: &KeyPair,
) -> Result<SubmittedRequest, SigningError> {
    let api: Api<CertificateSigningRequest> = Api::all(client);
    let request = request(purpose, naming, names, key)?;
    let found = match api.create(&PostParams::default(), &request).await {
        Ok(created) => created,
        Err(error) => {
            let error = api_error(error);
            let Some(name) = request.metadata.name.filter(|_| error.kind == ApiErrorKind::AlreadyExists)
            else {
                return Err(SigningError::Api(error));
            };
            let found = api.get(&name).await.map_err(|error| SigningError::Api(api_error(error)))?;
            if !is_ours(&found, purpose, key) {
                return Err(SigningError::NotOurs(name));
            }
            found
        }
    };
    let name = found.metadata.name.unwrap_or_default();
    Ok(SubmittedRequest { name, uid: found.metadata.uid.unwrap_or_default(), api })
}

impl SubmittedRequest {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the certificate is issued and returns it as PEM. The caller sets a timeout.
    pub(crate) async fn wait_until_issued(self) -> Result<Vec<u8>, SigningError> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher::watcher(self.api.clone(), config).default_backoff().boxed();
        let mut listed = false;
        while let Some(event) = events.next().await {
            let found = match event {
                Ok(watcher::Event::Init) => {
                    listed = false;
                    continue;
                }
                Ok(watcher::Event::InitApply(found) | watcher::Event::Apply(found)) => {
                    listed = true;
                    found
                }
                Ok(watcher::Event::InitDone) if listed => continue,
                Ok(watcher::Event::InitDone | watcher::Event::Delete(_)) => break,
                Err(error) => {
                    tracing::debug!(request = self.name, %error, "watch of certificate request failed");
                    continue;
                }
            };
            match outcome(&found, &self.uid) {
                CsrOutcome::Pending => {}
                CsrOutcome::Issued(certificate) => return Ok(certificate),
                CsrOutcome::Rejected { outcome, message } => {
                    return Err(SigningError::Rejected { name: self.name, outcome, message });
                }
                CsrOutcome::Replaced => break,
            }
        }
        Err(SigningError::Deleted(self.name))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum CsrOutcome {
    Pending,
    Issued(Vec<u8>),
    Rejected { outcome: &'static str, message: String },
    Replaced,
}

fn outcome(request: &CertificateSigningRequest, uid: &str) -> CsrOutcome {
    if request.metadata.uid.as_deref() != Some(uid) {
        return CsrOutcome::Replaced;
    }
    let Some(status) = &request.status else { return CsrOutcome::Pending };
    let mut approved = false;
    for condition in status.conditions.iter().flatten() {
        let rejected = |outcome| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let message = format!("{reason} {}", condition.message.as_deref().unwrap_or_default());
            CsrOutcome::Rejected { outcome, message: message.trim().to_owned() }
        };
        match condition.type_.as_str() {
            "Denied" => return rejected("denied"),
            "Failed" => return rejected("not signed"),
            "Approved" => approved = true,
            _ => {}
        }
    }
    match &status.certificate {
        Some(certificate) if approved && !certificate.0.is_empty() => {
            CsrOutcome::Issued(certificate.0.clone())
        }
        _ => CsrOutcome::Pending,
    }
}

fn request(
    purpose: Purpose,
    naming: CsrNaming,
    names: &CertificateNames,
    key: &KeyPair,
) -> Result<CertificateSigningRequest, SigningError> {
    let metadata = match naming {
        CsrNaming::FromContent => {
            ObjectMeta { name: Some(content_name(purpose, names, key)), ..ObjectMeta::default() }
        }
        CsrNaming::GeneratedByServer => {
            ObjectMeta { generate_name: Some("csr-".to_owned()), ..ObjectMeta::default() }
        }
    };
    let spec = CertificateSigningRequestSpec {
        request: ByteString(params(names)?.serialize_request(key)?.pem()?.into_bytes()),
        signer_name: purpose.signer().to_owned(),
        usages: Some(purpose.usages().map(str::to_owned).to_vec()),
        ..CertificateSigningRequestSpec::default()
    };
    Ok(CertificateSigningRequest { metadata, spec, status: None })
}

/// Returns certificate parameters with these names.
pub(super) fn params(names: &CertificateNames) -> Result<CertificateParams, rcgen::Error> {
    let addresses = names.addresses.iter().map(ToString::to_string);
    let alternatives: Vec<String> = names.dns.iter().cloned().chain(addresses).collect();
    let mut params = CertificateParams::new(alternatives)?;
    params.distinguished_name = DistinguishedName::new();
    for organization in &names.organizations {
        params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
    }
    params.distinguished_name.push(DnType::CommonName, names.common_name.as_str());
    Ok(params)
}

/// Returns upstream's name for a bootstrap request.
fn content_name(purpose: Purpose, names: &CertificateNames, key: &KeyPair) -> String {
    let mut hash = Sha512_256::new();
    let public_key = key.subject_public_key_info();
    let subject = std::iter::once(&names.common_name).chain(&names.organizations).map(String::as_bytes);
    let usages = purpose.usages();
    let usages = usages.iter().map(|usage| usage.as_bytes());
    for part in std::iter::once(public_key.as_slice()).chain(subject).chain(usages) {
        hash.update(URL_SAFE_NO_PAD.encode(part));
        hash.update("|");
    }
    format!("node-csr-{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
}

/// Whether an existing request has the same key and purpose.
fn is_ours(found: &CertificateSigningRequest, purpose: Purpose, key: &KeyPair) -> bool {
    use rustls::pki_types::CertificateSigningRequestDer;
    use rustls::pki_types::pem::PemObject;
    let Ok(der) = CertificateSigningRequestDer::from_pem_slice(&found.spec.request.0) else { return false };
    let Ok((_, parsed)) = X509CertificationRequest::from_der(&der) else { return false };
    let same_key = parsed.certification_request_info.subject_pki.raw == key.subject_public_key_info();
    same_key && found.spec.signer_name == purpose.signer()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::certificates::v1::{
        CertificateSigningRequestCondition, CertificateSigningRequestStatus,
    };

    use super::*;

    fn found(conditions: &[&str], certificate: &str) -> CertificateSigningRequest {
        let condition = |kind: &&str| CertificateSigningRequestCondition {
            type_: (*kind).to_owned(),
            reason: Some("Because".to_owned()),
            message: Some("of this".to_owned()),
            ..CertificateSigningRequestCondition::default()
        };
        CertificateSigningRequest {
            metadata: ObjectMeta { uid: Some("u".to_owned()), ..ObjectMeta::default() },
            status: Some(CertificateSigningRequestStatus {
                conditions: Some(conditions.iter().map(condition).collect()),
                certificate: Some(ByteString(certificate.as_bytes().to_vec())),
            }),
            ..CertificateSigningRequest::default()
        }
    }

    #[test]
    fn derives_outcome_from_conditions() {
        let rejected = |outcome| CsrOutcome::Rejected { outcome, message: "Because of this".to_owned() };
        for (conditions, certificate, expected) in [
            (&[][..], "", CsrOutcome::Pending),
            (&["Approved"], "", CsrOutcome::Pending),
            (&["Approved"], "pem", CsrOutcome::Issued(b"pem".to_vec())),
            (&[], "pem", CsrOutcome::Pending),
            (&["Denied"], "", rejected("denied")),
            (&["Approved", "Failed"], "pem", rejected("not signed")),
        ] {
            assert_eq!(outcome(&found(conditions, certificate), "u"), expected, "{conditions:?}");
        }
        assert_eq!(outcome(&found(&["Approved"], "pem"), "another"), CsrOutcome::Replaced);
    }

    #[test]
    fn recognizes_own_request_by_key() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let names = node_names("n");
        let created = request(Purpose::Client, CsrNaming::FromContent, &names, &key).unwrap();
        assert!(is_ours(&created, Purpose::Client, &key));
        assert!(!is_ours(&created, Purpose::Client, &other));
        assert!(!is_ours(&created, Purpose::Serving, &key));
        let repeated = request(Purpose::Client, CsrNaming::FromContent, &names, &key).unwrap();
        assert_eq!(created.metadata.name, repeated.metadata.name);
        let other_node = request(Purpose::Client, CsrNaming::FromContent, &node_names("m"), &key).unwrap();
        assert_ne!(created.metadata.name, other_node.metadata.name);
    }

    /// The expected name was computed with upstream's Go code.
    #[test]
    fn content_name_matches_upstream() {
        let key = KeyPair::from_pem(KEY).unwrap();
        let name = content_name(Purpose::Client, &node_names("node-1"), &key);
        assert_eq!(name, "node-csr-V08mEOhFw4CBiqTrxDbp8QiMzGYm1xliS22wPXk5M9Q");
    }

    const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgagX03vyjOMG2s46z
Tf86nf3W9RYvp1uR9lBvgh3A5VehRANCAASmVMw42NLu04H8slfTwkPL+Da97s++
p2M6FwhtgVwXKRIdPEBU/5rv/S2CbMj4/k/mgcFN675Vpb2fu8ZFKx1h
-----END PRIVATE KEY-----
";
}
