use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use http_body_util::BodyExt;
use model::AccessQuestion;
use ports::api::access_reviews::ApiAccessReviews;
use ports::api::token_reviews::ApiTokenReviews;
use ports::api::{ApiError, ApiErrorKind};
use tower::ServiceExt;

use super::*;

const TTL: Duration = Duration::from_secs(60);

/// A fake API server with tokens and the permissions of their owners.
#[derive(Default)]
struct Cluster {
    tokens: BTreeMap<&'static str, &'static str>,
    allowed: Vec<(&'static str, &'static str, &'static str)>,
    is_broken: bool,
    questions: Mutex<Vec<String>>,
}

impl Cluster {
    fn check_broken(&self) -> Result<(), ApiError> {
        let error = ApiError { kind: ApiErrorKind::Forbidden, message: "no".to_owned(), retry_after: None };
        if self.is_broken { Err(error) } else { Ok(()) }
    }
}

#[async_trait]
impl ApiTokenReviews for Cluster {
    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        self.check_broken()?;
        let user = |name: &&str| User { name: (*name).to_owned(), ..User::default() };
        Ok(self.tokens.get(token).map(user))
    }
}

#[async_trait]
impl ApiAccessReviews for Cluster {
    async fn allowed(&self, question: &AccessQuestion) -> Result<bool, ApiError> {
        self.check_broken()?;
        let request = (question.user.name.as_str(), question.verb.as_str(), question.subresource.as_str());
        let text = format!("{} {} {} {}", request.0, request.1, request.2, question.node);
        self.questions.lock().push(text);
        Ok(self.allowed.contains(&request))
    }
}

fn router(cluster: &Arc<Cluster>, anonymous: bool, streaming: StreamingVerb) -> Router {
    let authentication = Authentication {
        certificates: None,
        tokens: Some(TokenChecks::new(cluster.clone(), TTL)),
        anonymous,
    };
    let checks = AccessChecks::new(cluster.clone(), "node-1".to_owned(), TTL, TTL);
    let access = Access {
        authentication: Arc::new(authentication),
        authorization: Arc::new(Authorization::Webhook(checks)),
        streaming,
    };
    Router::new()
        .route("/pods", get(async || "pods"))
        .route("/metrics", get(async || "metrics"))
        .route("/exec/{ns}/{pod}/{container}", get(async || "exec").post(async || "exec"))
        .route("/run/{ns}/{pod}/{container}", post(async || "run"))
        .layer(from_fn_with_state(access, guard))
}

async fn send(router: &Router, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        request.headers_mut().insert("authorization", value);
    }
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn cluster() -> Arc<Cluster> {
    Arc::new(Cluster {
        tokens: BTreeMap::from([("good", "jane"), ("proxy", "admin"), ("reader", "reader")]),
        allowed: vec![
            ("jane", "get", "pods"),
            ("admin", "get", "proxy"),
            ("admin", "create", "proxy"),
            ("reader", "get", "proxy"),
        ],
        ..Cluster::default()
    })
}

#[tokio::test]
async fn rejects_unauthenticated_and_unauthorized_requests() {
    let cluster = cluster();
    let router = router(&cluster, false, StreamingVerb::Create);
    let forbidden = |text: &str| (403, format!("Forbidden ({text})\n"));
    let unauthorized = || (401, "Unauthorized".to_owned());
    let cases = [
        ("GET", "/pods", None, unauthorized()),
        ("GET", "/pods", Some("bad"), unauthorized()),
        ("GET", "/pods", Some("good"), (200, "pods".to_owned())),
        ("GET", "/pods", Some("proxy"), (200, "pods".to_owned())),
        (
            "GET",
            "/metrics",
            Some("good"),
            forbidden("user=jane, verb=get, resource=nodes, subresource(s)=[metrics]"),
        ),
        (
            "POST",
            "/pods",
            Some("good"),
            forbidden("user=jane, verb=create, resource=nodes, subresource(s)=[pods proxy]"),
        ),
        ("GET", "/no/such/path", None, unauthorized()),
        (
            "GET",
            "/no/such/path",
            Some("good"),
            forbidden("user=jane, verb=get, resource=nodes, subresource(s)=[proxy]"),
        ),
        ("GET", "/no/such/path", Some("proxy"), (404, String::new())),
        (
            "GET",
            "/exec/n/p/c",
            Some("reader"),
            forbidden("user=reader, verb=create, resource=nodes, subresource(s)=[proxy]"),
        ),
        ("GET", "/exec/n/p/c", Some("proxy"), (200, "exec".to_owned())),
        ("POST", "/run/n/p/c", Some("proxy"), (200, "run".to_owned())),
    ];
    for (method, path, token, expected) in cases {
        assert_eq!(send(&router, method, path, token).await, expected, "{method} {path} {token:?}");
    }
    let questions = cluster.questions.lock();
    assert!(questions.iter().all(|question| question.ends_with(" node-1")), "{questions:?}");
}

#[tokio::test]
async fn streaming_verb_by_method_allows_get_with_get_permission() {
    let router = router(&cluster(), false, StreamingVerb::ByMethod);
    assert_eq!(send(&router, "GET", "/exec/n/p/c", Some("reader")).await.0, 200);
    assert_eq!(send(&router, "POST", "/exec/n/p/c", Some("reader")).await.0, 403);
}

#[tokio::test]
async fn anonymous_user_needs_configuration_and_no_bad_token() {
    let mut allowing = Arc::into_inner(cluster()).unwrap();
    allowing.allowed.push(("system:anonymous", "get", "metrics"));
    let router = router(&Arc::new(allowing), true, StreamingVerb::Create);
    assert_eq!(send(&router, "GET", "/metrics", None).await.0, 200);
    assert_eq!(send(&router, "GET", "/metrics", Some("bad")).await.0, 401);
    let rejected = send(&router, "GET", "/pods", None).await;
    assert_eq!(rejected.0, 403);
    assert!(rejected.1.starts_with("Forbidden (user=system:anonymous, "), "{}", rejected.1);
}

#[tokio::test]
async fn caches_reviews() {
    let cluster = cluster();
    let router = router(&cluster, false, StreamingVerb::Create);
    for _ in 0..3 {
        send(&router, "GET", "/pods", Some("good")).await;
        send(&router, "GET", "/pods", Some("proxy")).await;
    }
    let expected =
        ["jane get pods node-1", "admin get pods node-1", "admin get proxy node-1"].map(str::to_owned);
    assert_eq!(*cluster.questions.lock(), expected);
}

#[tokio::test]
async fn rejects_requests_when_api_server_fails() {
    let broken = Arc::new(Cluster { is_broken: true, ..Cluster::default() });
    let open = router(&broken, true, StreamingVerb::Create);
    assert_eq!(send(&open, "GET", "/pods", Some("good")).await.0, 401);
    let text = "user=system:anonymous, verb=get, resource=nodes, subresource=pods";
    assert_eq!(send(&open, "GET", "/pods", None).await, (500, format!("Authorization error ({text})")));
}

/// "reader" may get `proxy`, which covers every path that is not listed separately, but may not run commands.
#[tokio::test]
async fn encoded_paths_reach_no_handler_with_other_permissions() {
    let cluster = cluster();
    let router = router(&cluster, false, StreamingVerb::Create);
    for path in [
        "/exec/n/p/c",
        "/%65xec/n/p/c",
        "/exec%2Fn/p/c",
        "/%2e/exec/n/p/c",
        "/./exec/n/p/c",
        "//exec/n/p/c",
        "/exec//n/p/c",
        "/pods/../exec/n/p/c",
        "/pods/%2e%2e/exec/n/p/c",
        "/pods;/exec/n/p/c",
        "/EXEC/n/p/c",
        "/exec/n/p/c?path=/pods",
        "/%00/exec/n/p/c",
        "/run/n/p/c",
        "/%72un/n/p/c",
    ] {
        for method in ["GET", "POST"] {
            let (status, body) = send(&router, method, path, Some("reader")).await;
            assert!([403, 404].contains(&status), "{method} {path}: {status} {body}");
            assert!(!["exec", "run"].contains(&body.as_str()), "{method} {path} ran a command");
        }
    }
    // Permission for pods gives no other path.
    for path in
        ["/metrics", "/pods/../metrics", "/pods%2F..%2Fmetrics", "/%70ods/%2e%2e/metrics", "//metrics"]
    {
        let (status, body) = send(&router, "GET", path, Some("good")).await;
        assert!([403, 404].contains(&status) && body != "metrics", "{path}: {status} {body}");
    }
}
