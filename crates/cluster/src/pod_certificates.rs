//! Requests certificates for pods (PodCertificateRequest).

mod keys;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1 as certificates;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use model::{CertificateOutcome, CertificateRequest, CertificateWish, Timestamp};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::{ApiError, ApiErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ApiServerAdapter;
use crate::errors::{failure, with_deadline};
use keys::GeneratedKey;

/// Longest wait for the key generation of other pods. After that, the next sync of the pod tries again.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

#[async_trait]
impl ApiPodCertificates for ApiServerAdapter {
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError> {
        let GeneratedKey { key, request } = generate_key(&wish.key_type, &self.rsa_key_limiter).await?;
        let (post, body) = (PostParams::default(), body(wish, request));
        let created = with_deadline(self.namespaced(&wish.namespace).create(&post, &body)).await?.metadata;
        Ok(CertificateRequest {
            name: created.name.unwrap_or_default(),
            created_at: created.creation_timestamp.as_ref().map(Timestamp::from_api_time).unwrap_or_default(),
            key,
        })
    }

    async fn get(&self, namespace: &str, name: &str) -> Result<Option<CertificateOutcome>, ApiError> {
        let api = self.namespaced::<certificates::PodCertificateRequest>(namespace);
        match with_deadline(api.get(name)).await {
            Ok(found) => Ok(Some(outcome(&found.status.unwrap_or_default()))),
            Err(error) if error.kind == ApiErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Generates a key on a blocking thread.
async fn generate_key(key_type: &str, limiter: &Arc<Semaphore>) -> Result<GeneratedKey, ApiError> {
    let permit = if keys::is_slow(key_type) { Some(acquire_permit(limiter).await?) } else { None };
    let key_type = key_type.to_owned();
    let generated = run_blocking(permit, move || keys::generate(&key_type)).await;
    generated?.map_err(|message| failure(ApiErrorKind::Invalid, message))
}

async fn acquire_permit(limiter: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(limiter).acquire_owned()).await;
    permit.ok().and_then(Result::ok).ok_or_else(|| {
        let seconds = PERMIT_TIMEOUT.as_secs();
        let message = format!("keys of other pods were still being generated after {seconds} s");
        failure(ApiErrorKind::Throttled, message)
    })
}

/// Runs work that cannot be cancelled. It holds the permit until it is done, even if the caller is dropped.
async fn run_blocking<T: Send + 'static>(
    permit: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let work = move || {
        let _permit = permit;
        work()
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| failure(ApiErrorKind::Invalid, format!("while generating keypair: {error}")))
}

fn body(wish: &CertificateWish, request: Vec<u8>) -> certificates::PodCertificateRequest {
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
            stub_pkc_s10_request: ByteString(request),
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
            // Other controllers may add conditions of other types.
            _ => {}
        }
    }
    CertificateOutcome::Pending
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn generates_keys_and_rejects_unknown_key_types() {
        let limiter = Arc::new(Semaphore::new(1));
        for kind in ["ED25519", "ECDSAP521"] {
            assert!(!generate_key(kind, &limiter).await.unwrap().request.is_empty(), "{kind}");
        }
        let error = generate_key("X", &limiter).await.err().unwrap();
        assert!(error.kind == ApiErrorKind::Invalid && error.message.contains("\"X\""), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn rsa_keys_time_out_waiting_for_a_permit_and_small_keys_need_none() {
        let limiter = Arc::new(Semaphore::new(1));
        let held = acquire_permit(&limiter).await.unwrap();
        for kind in ["ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521"] {
            assert!(generate_key(kind, &limiter).await.is_ok(), "{kind}");
        }
        for kind in ["RSA3072", "RSA4096"] {
            let error = generate_key(kind, &limiter).await.err().unwrap();
            assert!(error.is_transient() && error.message.contains("after 10 s"), "{kind}: {error}");
        }
        drop(held);
        assert!(acquire_permit(&limiter).await.is_ok());
    }

    #[tokio::test]
    async fn abandoned_key_generation_holds_its_permit_until_done() {
        let limiter = Arc::new(Semaphore::new(1));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let mut work = Box::pin(run_blocking(Some(acquire_permit(&limiter).await.unwrap()), move || {
            finished.recv().is_err()
        }));
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        assert_eq!(limiter.available_permits(), 0);
        drop(finish);
        assert!(acquire_permit(&limiter).await.is_ok());
    }

    #[test]
    fn request_has_pod_service_account_and_node() {
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
    fn derives_outcome_from_request_conditions() {
        let outcome_of = |kind: &str| {
            let status = json!({"certificateChain": "c", "beginRefreshAt": "2030-01-01T00:00:00Z",
                "notAfter": "2030-01-02T00:00:00Z", "conditions": [{"type": kind, "status": "True",
                "reason": "R", "message": "m", "lastTransitionTime": "2030-01-01T00:00:00Z"}]});
            outcome(&serde_json::from_value(status).unwrap())
        };
        let (reason, message) = ("R".to_owned(), "m".to_owned());
        assert_eq!(outcome_of("Denied"), CertificateOutcome::Denied { reason, message });
        assert!(matches!(outcome_of("Failed"), CertificateOutcome::Failed { .. }));
        let CertificateOutcome::Issued { chain, begin_refresh_at, not_after } = outcome_of("Issued") else {
            panic!()
        };
        assert_eq!((chain.as_str(), not_after.since(begin_refresh_at).as_secs()), ("c", 86400));
        assert_eq!(outcome_of("Other"), CertificateOutcome::Pending);
    }
}
