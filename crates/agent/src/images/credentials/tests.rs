use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use model::{AnswerSharing, CredentialFile, IssuedToken, PodSource, TokenRequest};
use ports::api::service_accounts::{ApiServiceAccounts, ServiceAccount};
use ports::api::tokens::ApiTokens;
use ports::api::{ApiError, ApiErrorKind};
use ports::credential_sources::ProgramError;
use serde_json::{Value, json};

use super::*;
use crate::tokens::Tokens;

/// A cluster with the accounts `puller` and `plain`, and a program that opens everything.
#[derive(Default)]
struct World {
    asked: Mutex<Vec<Value>>,
    metrics: Arc<Metrics>,
    broken: bool,
}

#[async_trait]
impl CredentialFiles for World {
    async fn read(&self) -> Vec<CredentialFile> {
        Vec::new()
    }
}

#[async_trait]
impl CredentialPrograms for World {
    async fn run(&self, _: &CredentialProvider, request: Vec<u8>) -> Result<Vec<u8>, ProgramError> {
        self.asked.lock().unwrap().push(serde_json::from_slice(&request).unwrap());
        if self.broken {
            return Err(ProgramError { provider: "p".to_owned(), reason: "broken".to_owned() });
        }
        let answer = json!({
            "apiVersion": "v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Global",
            "auth": {"r.io": {"username": "u", "password": "p"}},
        });
        Ok(answer.to_string().into_bytes())
    }
}

#[async_trait]
impl ApiServiceAccounts for World {
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
impl ApiTokens for World {
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError> {
        assert_eq!(request.account_uid.as_deref(), Some("1"));
        let token = format!("{} for {}", request.pod_name, request.wish.audiences.join(" "));
        Ok(IssuedToken { token, expires_at: Timestamp::from_secs(3600), expiration_seconds: 3600 })
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1)
    }
}

fn credentials(world: &Arc<World>, requires_account: bool, has_cluster: bool) -> Credentials {
    let token = ProviderToken {
        audience: "registry".to_owned(),
        requires_account,
        required_annotations: vec!["opt-in".to_owned()],
        optional_annotations: Vec::new(),
        shared: AnswerSharing::Account,
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
    let tokens = Arc::new(Tokens::new(world.clone(), world.clone()));
    Credentials::new(CredentialParts {
        files: world.clone(),
        programs: world.clone(),
        providers: vec![provider],
        accounts: has_cluster.then(|| Accounts { accounts: world.clone(), tokens }),
        clock: world.clone(),
        metrics: world.metrics.clone(),
    })
}

fn pod(name: &str, account: &str) -> Pod {
    let object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [], "serviceAccountName": account},
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap()
}

#[tokio::test]
async fn a_program_is_asked_once_for_each_account_that_opted_in() {
    let world = Arc::new(World::default());
    let credentials = credentials(&world, true, true);
    let mut found = Vec::new();
    for (name, account) in [("a", "puller"), ("b", "puller"), ("c", "plain"), ("d", "gone"), ("e", "")] {
        found.push(credentials.for_repository(&pod(name, account), &[], "r.io/app").await.len());
    }
    assert_eq!(found, [1, 1, 0, 0, 0]);
    let asked = world.asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0]["serviceAccountToken"], "a for registry");
    assert_eq!(asked[0]["serviceAccountAnnotations"], json!({"opt-in": "yes"}));
}

#[tokio::test]
async fn who_has_no_account_is_served_where_none_is_required() {
    for (requires_account, has_cluster, account, expected) in
        [(false, true, "", 1), (true, true, "", 0), (false, false, "puller", 1), (true, false, "puller", 0)]
    {
        let world = Arc::new(World::default());
        let credentials = credentials(&world, requires_account, has_cluster);
        let found = credentials.for_repository(&pod("a", account), &[], "r.io/app").await;
        assert_eq!(found.len(), expected, "{requires_account} {has_cluster}");
        let asked = world.asked.lock().unwrap();
        assert!(asked.iter().all(|request| request["serviceAccountToken"].is_null()), "{asked:?}");
    }
}

#[tokio::test]
async fn runs_of_programs_and_their_failures_are_counted() {
    for (broken, failures) in [(false, 0), (true, 1)] {
        let world = Arc::new(World { broken, ..World::default() });
        let credentials = credentials(&world, false, false);
        credentials.for_repository(&pod("a", ""), &[], "r.io/app").await;
        let text = world.metrics.encode(crate::metrics::Format::Text);
        let line = "kubelet_credential_provider_plugin_duration_count{plugin_name=\"p\"} 1\n";
        assert!(text.contains(line), "{text}");
        let line = "kubelet_credential_provider_plugin_errors_total{plugin_name=\"p\"} 1\n";
        assert_eq!(text.matches(line).count(), failures, "{text}");
    }
}
