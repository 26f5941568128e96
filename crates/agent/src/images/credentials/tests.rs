use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use model::{CredentialFile, IssuedToken, PodSource, ResponseSharing, TokenRequest};
use ports::api::service_accounts::{ApiServiceAccounts, ServiceAccount};
use ports::api::tokens::ApiTokens;
use ports::api::{ApiError, ApiErrorKind};
use ports::host::credential_sources::ProgramError;
use serde_json::{Value, json};
use testkit::builders::parse_pod;
use testkit::fake_clock::FakeClock;

use super::*;
use crate::cluster::tokens::Tokens;

/// A cluster with the accounts `puller` and `plain`, and a program that always returns credentials.
#[derive(Default)]
struct FakeCluster {
    requests: Mutex<Vec<Value>>,
    metrics: Arc<Metrics>,
    fails: bool,
}

#[async_trait]
impl CredentialFiles for FakeCluster {
    async fn read(&self) -> Vec<CredentialFile> {
        Vec::new()
    }
}

#[async_trait]
impl CredentialPrograms for FakeCluster {
    async fn run(&self, _: &CredentialProvider, request: Vec<u8>) -> Result<Vec<u8>, ProgramError> {
        self.requests.lock().push(serde_json::from_slice(&request).unwrap());
        if self.fails {
            return Err(ProgramError { provider: "p".to_owned(), reason: "fails".to_owned() });
        }
        let answer = json!({
            "apiVersion": "v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Global",
            "auth": {"r.io": {"username": "u", "password": "p"}},
        });
        Ok(answer.to_string().into_bytes())
    }
}

#[async_trait]
impl ApiServiceAccounts for FakeCluster {
    async fn get(&self, _: &str, name: &str) -> Result<ServiceAccount, ApiError> {
        let annotations = match name {
            "puller" => BTreeMap::from([("opt-in".to_owned(), "yes".to_owned())]),
            "plain" => BTreeMap::new(),
            _ => {
                let (kind, message) = (ApiErrorKind::NotFound, "no such account".to_owned());
                return Err(ApiError { kind, message, retry_after: None });
            }
        };
        Ok(ServiceAccount { name: name.to_owned(), uid: "1".to_owned(), annotations })
    }
}

#[async_trait]
impl ApiTokens for FakeCluster {
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError> {
        assert_eq!(request.account_uid.as_deref(), Some("1"));
        let token = format!("{} for {}", request.pod_name, request.wish.audiences.join(" "));
        Ok(IssuedToken { token, expires_at: Timestamp::from_secs(3600), expiration_seconds: 3600 })
    }
}

fn credentials(cluster: &Arc<FakeCluster>, requires_account: bool, has_cluster: bool) -> Credentials {
    let token = ProviderToken {
        audience: "registry".to_owned(),
        requires_account,
        required_annotations: vec!["opt-in".to_owned()],
        optional_annotations: Vec::new(),
        shared: ResponseSharing::Account,
    };
    let provider = CredentialProvider {
        name: "p".to_owned(),
        match_images: vec!["r.io".to_owned()],
        default_cache_duration: Duration::from_secs(60),
        api_version: "v1".to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        token: Some(token),
    };
    let clock = Arc::new(FakeClock::fixed(1));
    let tokens = Arc::new(Tokens::new(cluster.clone(), clock.clone()));
    Credentials::new(CredentialsDeps {
        files: cluster.clone(),
        programs: cluster.clone(),
        providers: vec![provider],
        accounts: has_cluster.then(|| ServiceAccounts { accounts: cluster.clone(), tokens }),
        clock,
        metrics: cluster.metrics.clone(),
    })
}

fn pod(name: &str, account: &str) -> Pod {
    let object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [], "serviceAccountName": account},
    });
    parse_pod(object, PodSource::Api)
}

#[tokio::test]
async fn runs_program_once_per_account_with_required_annotation() {
    let cluster = Arc::new(FakeCluster::default());
    let credentials = credentials(&cluster, true, true);
    let mut found = Vec::new();
    for (name, account) in [("a", "puller"), ("b", "puller"), ("c", "plain"), ("d", "gone"), ("e", "")] {
        found.push(credentials.for_repository(&pod(name, account), &[], "r.io/app").await.len());
    }
    assert_eq!(found, [1, 1, 0, 0, 0]);
    let requests = cluster.requests.lock();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(requests[0]["serviceAccountToken"], "a for registry");
    assert_eq!(requests[0]["serviceAccountAnnotations"], json!({"opt-in": "yes"}));
}

#[tokio::test]
async fn pod_without_account_gets_credentials_unless_account_is_required() {
    for (requires_account, has_cluster, account, expected) in
        [(false, true, "", 1), (true, true, "", 0), (false, false, "puller", 1), (true, false, "puller", 0)]
    {
        let cluster = Arc::new(FakeCluster::default());
        let credentials = credentials(&cluster, requires_account, has_cluster);
        let found = credentials.for_repository(&pod("a", account), &[], "r.io/app").await;
        assert_eq!(found.len(), expected, "{requires_account} {has_cluster}");
        let requests = cluster.requests.lock();
        assert!(requests.iter().all(|request| request["serviceAccountToken"].is_null()), "{requests:?}");
    }
}

#[tokio::test]
async fn counts_program_runs_and_failures() {
    for (fails, failures) in [(false, 0), (true, 1)] {
        let cluster = Arc::new(FakeCluster { fails, ..FakeCluster::default() });
        let credentials = credentials(&cluster, false, false);
        credentials.for_repository(&pod("a", ""), &[], "r.io/app").await;
        let text = cluster.metrics.encode(crate::metrics::Format::Text);
        let line = "kubelet_credential_provider_plugin_duration_count{plugin_name=\"p\"} 1\n";
        assert!(text.contains(line), "{text}");
        let line = "kubelet_credential_provider_plugin_errors_total{plugin_name=\"p\"} 1\n";
        assert_eq!(text.matches(line).count(), failures, "{text}");
    }
}
