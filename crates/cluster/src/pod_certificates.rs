//! Certificates that pods ask for.

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1 as certificates;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use model::{CertificateOutcome, CertificateRequest, CertificateWish, Timestamp};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::{ApiError, ApiErrorKind};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SignatureAlgorithm};

use crate::Clients;
use crate::deadline::with_deadline;

/// [`ApiPodCertificates`] on a real API server.
pub struct PodCertificatesAdapter {
    client: Client,
}

impl PodCertificatesAdapter {
    /// Over the main lane.
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone() }
    }

    fn api(&self, namespace: &str) -> Api<certificates::PodCertificateRequest> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

#[async_trait]
impl ApiPodCertificates for PodCertificatesAdapter {
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError> {
        let (key, proof) = key_and_proof(&wish.key_type)?;
        let body = body(wish, proof);
        let post = PostParams::default();
        let made = with_deadline(self.api(&wish.namespace).create(&post, &body)).await?.metadata;
        Ok(CertificateRequest {
            name: made.name.unwrap_or_default(),
            created_at: made.creation_timestamp.as_ref().map(Timestamp::from_api_time).unwrap_or_default(),
            key,
        })
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<CertificateOutcome>, ApiError> {
        match with_deadline(self.api(namespace).get(name)).await {
            Ok(found) => Ok(Some(outcome(&found.status.unwrap_or_default()))),
            Err(error) if error.kind == ApiErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A new key in PEM form, and a request without names that proves that we have it.
fn key_and_proof(key_type: &str) -> Result<(String, Vec<u8>), ApiError> {
    let failed = |message: String| ApiError { kind: ApiErrorKind::Invalid, message, retry_after: None };
    let kind: &SignatureAlgorithm = match key_type {
        "ECDSAP256" => &rcgen::PKCS_ECDSA_P256_SHA256,
        "ECDSAP384" => &rcgen::PKCS_ECDSA_P384_SHA384,
        "ED25519" => &rcgen::PKCS_ED25519,
        "RSA3072" | "RSA4096" | "ECDSAP521" => {
            return Err(failed(format!(
                "this node makes no keys of type {key_type:?}; use ECDSAP256, ECDSAP384 or ED25519"
            )));
        }
        other => return Err(failed(format!("unknown key type {other:?}"))),
    };
    let made = || -> Result<(String, Vec<u8>), rcgen::Error> {
        let key = KeyPair::generate_for(kind)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        Ok((key.serialize_pem(), params.serialize_request(&key)?.der().to_vec()))
    };
    made().map_err(|error| failed(format!("while generating keypair: {error}")))
}

fn body(wish: &CertificateWish, proof: Vec<u8>) -> certificates::PodCertificateRequest {
    certificates::PodCertificateRequest {
        metadata: ObjectMeta {
            namespace: Some(wish.namespace.clone()),
            generate_name: Some("req-".to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: wish.pod_name.clone(),
                uid: wish.pod_uid.to_string(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: certificates::PodCertificateRequestSpec {
            signer_name: wish.signer.clone(),
            pod_name: wish.pod_name.clone(),
            pod_uid: wish.pod_uid.to_string(),
            service_account_name: wish.account.clone(),
            service_account_uid: wish.account_uid.clone(),
            node_name: wish.node.clone(),
            node_uid: wish.node_uid.clone(),
            max_expiration_seconds: wish.max_expiration_seconds,
            stub_pkc_s10_request: ByteString(proof),
            unverified_user_annotations: Some(wish.annotations.clone()).filter(|all| !all.is_empty()),
            ..certificates::PodCertificateRequestSpec::default()
        },
        status: None,
    }
}

fn outcome(status: &certificates::PodCertificateRequestStatus) -> CertificateOutcome {
    let time = |time: &Option<_>| time.as_ref().map(Timestamp::from_api_time).unwrap_or_default();
    for condition in status.conditions.iter().flatten() {
        let (reason, message) = (condition.reason.clone(), condition.message.clone());
        match condition.type_.as_str() {
            "Denied" => return CertificateOutcome::Denied { reason, message },
            "Failed" => return CertificateOutcome::Failed { reason, message },
            "Issued" => {
                return CertificateOutcome::Issued {
                    chain: status.certificate_chain.clone().unwrap_or_default(),
                    begin_refresh_at: time(&status.begin_refresh_at),
                    not_after: time(&status.not_after),
                };
            }
            // Others may add their own.
            _ => {}
        }
    }
    CertificateOutcome::Pending
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use x509_parser::prelude::FromDer;

    use super::*;

    #[test]
    fn a_request_proves_the_key_and_names_nobody() {
        for kind in ["ECDSAP256", "ECDSAP384", "ED25519"] {
            let (key, proof) = key_and_proof(kind).unwrap();
            assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"), "{kind}");
            let (_, request) =
                x509_parser::certification_request::X509CertificationRequest::from_der(&proof).unwrap();
            assert_eq!(request.certification_request_info.subject.iter().count(), 0, "{kind}");
            let own = KeyPair::from_pem(&key).unwrap();
            let public = rcgen::PublicKeyData::subject_public_key_info(&own);
            assert_eq!(request.certification_request_info.subject_pki.raw, public, "{kind}");
        }
        for kind in ["RSA3072", "RSA4096", "ECDSAP521", "X"] {
            let error = key_and_proof(kind).unwrap_err();
            assert!(error.kind == ApiErrorKind::Invalid && error.message.contains(kind), "{error}");
        }
    }

    #[test]
    fn a_request_says_who_asks_for_whom() {
        let wish = CertificateWish {
            namespace: "ns".into(),
            pod_name: "p".into(),
            pod_uid: "u".into(),
            account: "app".into(),
            account_uid: "au".into(),
            node: "n".into(),
            node_uid: "nu".into(),
            signer: "example.com/s".into(),
            key_type: "ED25519".into(),
            max_expiration_seconds: Some(3600),
            annotations: [("example.com/a".to_owned(), "b".to_owned())].into(),
        };
        let sent = serde_json::to_value(body(&wish, b"proof".to_vec())).unwrap();
        assert_eq!(
            sent["spec"],
            json!({
                "signerName": "example.com/s", "podName": "p", "podUID": "u", "serviceAccountName": "app",
                "serviceAccountUID": "au", "nodeName": "n", "nodeUID": "nu", "maxExpirationSeconds": 3600,
                "stubPKCS10Request": "cHJvb2Y=", "unverifiedUserAnnotations": {"example.com/a": "b"},
            })
        );
        assert_eq!(sent["metadata"]["generateName"], "req-");
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
        assert_eq!(sent["metadata"]["ownerReferences"], owner);
    }

    #[test]
    fn conditions_say_what_became_of_a_request() {
        let told = |kind: &str| {
            let status = json!({"certificateChain": "c", "beginRefreshAt": "2030-01-01T00:00:00Z",
                "notAfter": "2030-01-02T00:00:00Z", "conditions": [{"type": kind, "status": "True",
                "reason": "R", "message": "m", "lastTransitionTime": "2030-01-01T00:00:00Z"}]});
            outcome(&serde_json::from_value(status).unwrap())
        };
        let (reason, message) = ("R".to_owned(), "m".to_owned());
        assert_eq!(told("Denied"), CertificateOutcome::Denied { reason, message });
        assert!(matches!(told("Failed"), CertificateOutcome::Failed { .. }));
        let CertificateOutcome::Issued { chain, begin_refresh_at, not_after } = told("Issued") else {
            panic!()
        };
        assert_eq!((chain.as_str(), not_after.since(begin_refresh_at).as_secs()), ("c", 86400));
        assert_eq!(told("Other"), CertificateOutcome::Pending);
    }
}
