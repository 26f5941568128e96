//! Certificate signing requests: making one, and waiting for what becomes of it.

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

use super::credential::Names;
use crate::errors::api_error;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    /// The request cannot be made.
    #[error("make a certificate request: {0}")]
    Make(#[from] rcgen::Error),
    /// The API server refused or was not reached.
    #[error("certificate request: {0}")]
    Api(ApiError),
    /// Somebody said no.
    #[error("certificate request {name} was {verdict}: {message}")]
    Refused {
        /// Of the request.
        name: String,
        /// Denied or failed.
        verdict: &'static str,
        /// Why.
        message: String,
    },
    /// There is another request of that name.
    #[error("there is a certificate request {0} already, which is not ours")]
    NotOurs(String),
    /// It was deleted while we waited.
    #[error("certificate request {0} was deleted")]
    Deleted(String),
}

/// For what a certificate is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To ask the API server.
    Client,
    /// To be asked.
    Serving,
}

impl Purpose {
    fn signer(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// Upstream's for keys that cannot encrypt.
    fn usages(self) -> [&'static str; 2] {
        match self {
            Self::Client => ["digital signature", "client auth"],
            Self::Serving => ["digital signature", "server auth"],
        }
    }
}

/// How a request is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By what is asked for: the same again finds the same request.
    ByContent,
    /// By the server.
    ByServer,
}

/// The names of a node's client certificate.
pub(crate) fn node_names(node: &str) -> Names {
    Names {
        common_name: format!("system:node:{node}"),
        organizations: vec!["system:nodes".to_owned()],
        ..Names::default()
    }
}

/// A request in the API server's hands.
pub(crate) struct Submitted {
    name: String,
    uid: String,
    api: Api<CertificateSigningRequest>,
}

/// Sends a request for a certificate on `key`.
pub(crate) async fn submit(
    client: Client,
    purpose: Purpose,
    naming: Naming,
    names: &Names,
    key: &KeyPair,
) -> Result<Submitted, SigningError> {
    let api: Api<CertificateSigningRequest> = Api::all(client);
    let request = request(purpose, naming, names, key)?;
    let found = match api.create(&PostParams::default(), &request).await {
        Ok(created) => created,
        Err(error) => {
            let error = api_error(&error);
            let Some(name) = request.metadata.name.filter(|_| error.kind == ApiErrorKind::AlreadyExists)
            else {
                return Err(SigningError::Api(error));
            };
            let found = api.get(&name).await.map_err(|error| SigningError::Api(api_error(&error)))?;
            if !is_ours(&found, purpose, key) {
                return Err(SigningError::NotOurs(name));
            }
            found
        }
    };
    let name = found.metadata.name.unwrap_or_default();
    Ok(Submitted { name, uid: found.metadata.uid.unwrap_or_default(), api })
}

impl Submitted {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The certificate in PEM, once there is one. How long to wait is the caller's choice.
    pub(crate) async fn issued(self) -> Result<Vec<u8>, SigningError> {
        let only = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = watcher::watcher(self.api.clone(), only).default_backoff().boxed();
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
                    tracing::debug!(request = self.name, %error, "watch of a certificate request");
                    continue;
                }
            };
            match verdict(&found, &self.uid) {
                Verdict::Waiting => {}
                Verdict::Issued(certificate) => return Ok(certificate),
                Verdict::Refused { verdict, message } => {
                    return Err(SigningError::Refused { name: self.name, verdict, message });
                }
                Verdict::Replaced => break,
            }
        }
        Err(SigningError::Deleted(self.name))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Waiting,
    Issued(Vec<u8>),
    Refused { verdict: &'static str, message: String },
    Replaced,
}

fn verdict(request: &CertificateSigningRequest, uid: &str) -> Verdict {
    if request.metadata.uid.as_deref() != Some(uid) {
        return Verdict::Replaced;
    }
    let Some(status) = &request.status else { return Verdict::Waiting };
    let mut approved = false;
    for condition in status.conditions.iter().flatten() {
        let refused = |verdict| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let message = format!("{reason} {}", condition.message.as_deref().unwrap_or_default());
            Verdict::Refused { verdict, message: message.trim().to_owned() }
        };
        match condition.type_.as_str() {
            "Denied" => return refused("denied"),
            "Failed" => return refused("not signed"),
            "Approved" => approved = true,
            _ => {}
        }
    }
    match &status.certificate {
        Some(certificate) if approved && !certificate.0.is_empty() => Verdict::Issued(certificate.0.clone()),
        _ => Verdict::Waiting,
    }
}

fn request(
    purpose: Purpose,
    naming: Naming,
    names: &Names,
    key: &KeyPair,
) -> Result<CertificateSigningRequest, SigningError> {
    let metadata = match naming {
        Naming::ByContent => {
            ObjectMeta { name: Some(content_name(purpose, names, key)), ..ObjectMeta::default() }
        }
        Naming::ByServer => ObjectMeta { generate_name: Some("csr-".to_owned()), ..ObjectMeta::default() },
    };
    let spec = CertificateSigningRequestSpec {
        request: ByteString(params(names)?.serialize_request(key)?.pem()?.into_bytes()),
        signer_name: purpose.signer().to_owned(),
        usages: Some(purpose.usages().map(str::to_owned).to_vec()),
        ..CertificateSigningRequestSpec::default()
    };
    Ok(CertificateSigningRequest { metadata, spec, status: None })
}

/// What a certificate of these names is made of.
pub(super) fn params(names: &Names) -> Result<CertificateParams, rcgen::Error> {
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

/// Upstream's name for the request of a node that has no certificate yet.
fn content_name(purpose: Purpose, names: &Names, key: &KeyPair) -> String {
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

/// Whether a request that was found was made with the same key for the same purpose.
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
    fn verdicts_by_conditions() {
        let refused = |verdict| Verdict::Refused { verdict, message: "Because of this".to_owned() };
        for (conditions, certificate, expected) in [
            (&[][..], "", Verdict::Waiting),
            (&["Approved"], "", Verdict::Waiting),
            (&["Approved"], "pem", Verdict::Issued(b"pem".to_vec())),
            (&[], "pem", Verdict::Waiting),
            (&["Denied"], "", refused("denied")),
            (&["Approved", "Failed"], "pem", refused("not signed")),
        ] {
            assert_eq!(verdict(&found(conditions, certificate), "u"), expected, "{conditions:?}");
        }
        assert_eq!(verdict(&found(&["Approved"], "pem"), "another"), Verdict::Replaced);
    }

    #[test]
    fn a_request_is_known_by_its_key() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let names = node_names("n");
        let made = request(Purpose::Client, Naming::ByContent, &names, &key).unwrap();
        assert!(is_ours(&made, Purpose::Client, &key));
        assert!(!is_ours(&made, Purpose::Client, &other));
        assert!(!is_ours(&made, Purpose::Serving, &key));
        let again = request(Purpose::Client, Naming::ByContent, &names, &key).unwrap();
        assert_eq!(made.metadata.name, again.metadata.name);
        let elsewhere = request(Purpose::Client, Naming::ByContent, &node_names("m"), &key).unwrap();
        assert_ne!(made.metadata.name, elsewhere.metadata.name);
    }

    /// The name was computed with Go's library, as upstream does.
    #[test]
    fn names_by_content_are_upstreams() {
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
