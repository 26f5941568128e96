use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use model::{CertificateOutcome, CertificateRequest, PodSource};
use ports::api::service_accounts::ServiceAccount;
use ports::api::{ApiError, ApiErrorKind};
use serde_json::json;
use testkit::builders::parse_pod;
use testkit::fake_clock::FakeClock;

use super::*;
use crate::cluster::event_log::EventLog;
use crate::metrics::{Format, Metrics};

/// A cluster that answers every request with the configured outcome.
struct FakeCluster {
    requests: Mutex<Vec<CertificateWish>>,
    outcome: Mutex<CertificateOutcome>,
    clock: Arc<FakeClock>,
    unreachable: Mutex<bool>,
}

#[async_trait]
impl ApiPodCertificates for FakeCluster {
    async fn create(&self, wish: &CertificateWish) -> Result<CertificateRequest, ApiError> {
        if *self.unreachable.lock() {
            let message = "unreachable".to_owned();
            return Err(ApiError { kind: ApiErrorKind::Unreachable, message, retry_after: None });
        }
        let mut requests = self.requests.lock();
        requests.push(wish.clone());
        let number = requests.len();
        Ok(CertificateRequest {
            name: format!("req-{number}"),
            created_at: self.clock.now(),
            key: format!("key {number}\n"),
        })
    }

    async fn get(&self, namespace: &str, _: &str) -> Result<Option<CertificateOutcome>, ApiError> {
        assert_eq!(namespace, "ns");
        Ok(Some(self.outcome.lock().clone()))
    }
}

#[async_trait]
impl ApiServiceAccounts for FakeCluster {
    async fn get(&self, _: &str, name: &str) -> Result<ServiceAccount, ApiError> {
        Ok(ServiceAccount { name: name.to_owned(), uid: format!("{name}-uid"), ..Default::default() })
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn issued() -> CertificateOutcome {
    CertificateOutcome::Issued {
        chain: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
        begin_refresh_at: at(3600),
        not_after: at(7200),
    }
}

fn fixture() -> (Arc<FakeCluster>, Arc<EventLog>, Arc<PodCertificates>, Arc<Metrics>) {
    let cluster = Arc::new(FakeCluster {
        requests: Mutex::default(),
        outcome: Mutex::new(CertificateOutcome::Pending),
        clock: Arc::new(FakeClock::fixed(1_000_000)),
        unreachable: Mutex::new(false),
    });
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "node-a", "uid": "node-uid"}})).unwrap();
    let (_, view) = watch::channel(NodeView::of(Arc::new(node)));
    let events = Arc::new(EventLog::new(10));
    let certificates = Arc::new(PodCertificates::new(PodCertificatesDeps {
        api: cluster.clone(),
        accounts: cluster.clone(),
        node: view,
        events: events.clone(),
        clock: cluster.clock.clone(),
    }));
    let metrics = Arc::new(Metrics::new());
    metrics.add(certificates.clone());
    (cluster, events, certificates, metrics)
}

fn pod() -> Pod {
    let object = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [], "serviceAccountName": "app"},
    });
    parse_pod(object, PodSource::Api)
}

fn source() -> PodCertificateProjection {
    let source = json!({"signerName": "example.com/s", "keyType": "ED25519", "maxExpirationSeconds": 86400,
        "credentialBundlePath": "b", "userAnnotations": {"example.com/a": "b"}});
    serde_json::from_value(source).unwrap()
}

#[tokio::test]
async fn requests_certificate_once_and_refreshes_when_due() {
    let (cluster, _, certificates, metrics) = fixture();
    let (pod, source) = (pod(), source());
    let get = || certificates.get(&pod, ("v", 0), &source);
    let states = || {
        let text = metrics.encode(Format::Text);
        let lines = text.lines().filter(|line| line.starts_with("kubelet_podcertificate_states{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(get().await.unwrap_err(), "credential bundle is not issued yet");
    }
    let line = |state: &str| {
        format!("kubelet_podcertificate_states{{signer_name=\"example.com/s\",state=\"{state}\"}} 1")
    };
    assert_eq!(states(), [line("not_yet_issued")]);
    *cluster.outcome.lock() = issued();
    assert_eq!(get().await.unwrap().key, "key 1\n");
    assert_eq!(states(), [line("fresh")]);
    let requests = cluster.requests.lock().clone();
    assert_eq!(requests.len(), 1);
    let wish = &requests[0];
    assert_eq!((wish.account.as_str(), wish.account_uid.as_str()), ("app", "app-uid"));
    assert_eq!((wish.node.as_str(), wish.node_uid.as_str()), ("node-a", "node-uid"));
    assert_eq!((wish.signer.as_str(), wish.max_expiration_seconds), ("example.com/s", Some(86400)));
    assert_eq!(wish.annotations["example.com/a"], "b");

    let due = certificates.due_at(&"u".into()).unwrap();
    assert!(due >= at(3600) && due < at(3900), "{due:?}");
    cluster.clock.set(due);
    assert_eq!(get().await.unwrap().key, "key 2\n");
    certificates.forget(&"u".into());
    assert_eq!((certificates.due_at(&"u".into()), states()), (None, Vec::new()));
}

#[tokio::test]
async fn keeps_old_certificate_while_server_is_unreachable_and_warns() {
    let (cluster, events, certificates, _) = fixture();
    *cluster.outcome.lock() = issued();
    let (pod, source) = (pod(), source());
    let get = || certificates.get(&pod, ("v", 0), &source);
    assert!(get().await.is_ok());
    *cluster.unreachable.lock() = true;
    for _ in 0..2 {
        cluster.clock.set(at(7201));
        assert_eq!(get().await.unwrap().key, "key 1\n");
    }
    let reasons: Vec<_> = events.all().iter().map(|series| series.event.reason.clone()).collect();
    assert_eq!(reasons, ["CertificateOverdueForRefresh", "CertificateExpired"]);
    let other = Pod { uid: "w".into(), ..pod };
    let problem = certificates.get(&other, ("v", 0), &source).await.unwrap_err();
    assert!(problem.starts_with("credential bundle is not issued yet: while creating"), "{problem}");
}

#[tokio::test]
async fn denial_is_final_and_recorded_as_event() {
    let (cluster, events, certificates, _) = fixture();
    let (reason, message) = ("No".to_owned(), "never".to_owned());
    *cluster.outcome.lock() = CertificateOutcome::Denied { reason, message };
    for _ in 0..2 {
        let problem = certificates.get(&pod(), ("v", 0), &source()).await.unwrap_err();
        assert_eq!(problem, "PodCertificateRequest was permanently denied: reason=\"No\" message=\"never\"");
    }
    assert_eq!(cluster.requests.lock().len(), 1);
    let all = events.all();
    let [series] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        series.event.message,
        "PodCertificateRequest ns/req-1 was denied, reason=\"No\", message=\"never\""
    );
}
