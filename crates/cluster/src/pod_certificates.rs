//! Certificates that pods ask for.

mod keys;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1 as certificates;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use model::{CertificateOutcome, CertificateRequest, CertificateWish, Timestamp};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::{ApiError, ApiErrorKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Clients;
use crate::deadline::with_deadline;
use keys::Made;

/// How many keys that take long are made at a time: one keeps a core busy for seconds, which pods have to do without.
const AT_A_TIME: usize = 1;
/// How long a key waits for those of other pods. Who waits in vain tries again with the next pass over the pod.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// [`ApiPodCertificates`] on a real API server.
pub struct PodCertificatesAdapter {
    client: Client,
    turns: Arc<Semaphore>,
}

impl PodCertificatesAdapter {
    /// Over the main lane.
    #[must_use]
    pub fn new(clients: &Clients) -> Self {
        Self { client: clients.main.clone(), turns: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    fn api(&self, namespace: &str) -> Api<certificates::PodCertificateRequest> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

#[async_trait]
impl ApiPodCertificates for PodCertificatesAdapter {
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError> {
        let Made { key, proof } = made_apart(&wish.key_type, &self.turns).await?;
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

/// Makes a key on a thread that may take its time.
async fn made_apart(key_type: &str, turns: &Arc<Semaphore>) -> Result<Made, ApiError> {
    let turn = if keys::takes_long(key_type) { Some(turn(turns).await?) } else { None };
    let key_type = key_type.to_owned();
    let made = apart(turn, move || keys::make(&key_type)).await;
    made?.map_err(|message| ApiError { kind: ApiErrorKind::Invalid, message, retry_after: None })
}

/// The right to make a key that takes long.
async fn turn(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let waited = tokio::time::timeout(LONGEST_WAIT, Arc::clone(turns).acquire_owned()).await;
    waited.ok().and_then(Result::ok).ok_or_else(|| ApiError {
        kind: ApiErrorKind::Throttled,
        message: format!("keys of other pods were still being generated after {} s", LONGEST_WAIT.as_secs()),
        retry_after: None,
    })
}

/// Does work that cannot be stopped: it keeps its turn to its end, also when nobody waits for it any more.
async fn apart<T: Send + 'static>(
    turn: Option<OwnedSemaphorePermit>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let work = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError {
        kind: ApiErrorKind::Invalid,
        message: format!("while generating keypair: {error}"),
        retry_after: None,
    })
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

    use super::*;

    #[tokio::test]
    async fn a_key_is_made_apart_and_one_that_cannot_be_made_is_refused() {
        let turns = Arc::new(Semaphore::new(1));
        for kind in ["ED25519", "ECDSAP521"] {
            assert!(!made_apart(kind, &turns).await.unwrap().proof.is_empty(), "{kind}");
        }
        let error = made_apart("X", &turns).await.err().unwrap();
        assert!(error.kind == ApiErrorKind::Invalid && error.message.contains("\"X\""), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_keys_of_others_gives_up_after_a_while_and_small_keys_do_not_wait() {
        let turns = Arc::new(Semaphore::new(1));
        let held = turn(&turns).await.unwrap();
        for kind in ["ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521"] {
            assert!(made_apart(kind, &turns).await.is_ok(), "{kind}");
        }
        for kind in ["RSA3072", "RSA4096"] {
            let error = made_apart(kind, &turns).await.err().unwrap();
            assert!(error.is_transient() && error.message.contains("after 10 s"), "{kind}: {error}");
        }
        drop(held);
        assert!(turn(&turns).await.is_ok());
    }

    #[tokio::test]
    async fn a_key_that_nobody_waits_for_any_more_keeps_its_turn_until_it_is_made() {
        let turns = Arc::new(Semaphore::new(1));
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let mut work = Box::pin(apart(Some(turn(&turns).await.unwrap()), move || finished.recv().is_err()));
        assert!(futures::poll!(&mut work).is_pending());
        drop(work);
        assert_eq!(turns.available_permits(), 0);
        drop(finish);
        assert!(turn(&turns).await.is_ok());
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
