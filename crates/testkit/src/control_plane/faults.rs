//! A door in front of the API server that answers badly when told to.
//!
//! Plain HTTP on loopback; behind it requests go to the real API server in the name of the node, by impersonation, so
//! that authorizers and the audit log see the node itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER, TRANSFER_ENCODING,
};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio_stream::StreamExt;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ControlPlane;
use super::certificates::{Identity, Issued};
use super::kubeconfig::{self, Credential};

/// What goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request is refused with a status, which may ask for a pause.
    Refuse {
        /// HTTP status.
        code: u16,
        /// Seconds of `Retry-After`.
        retry_after: Option<u32>,
    },
    /// A watch is told that its place is too old, in an event.
    Expired,
    /// The answer ends after so many bytes, in the middle of whatever that is.
    Cut(usize),
    /// The answer is half of some JSON.
    Garbage,
    /// Each part of the answer comes this much later.
    Slow(Duration),
    /// The request is taken and never answered.
    Silence,
}

/// A fault for the requests it fits.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Part of the path and query, such as `watch=true` or `/status`.
    pub uri_part: &'static str,
    /// The method, such as `PATCH`; empty fits all.
    pub method: &'static str,
    /// How many requests it hits.
    pub times: usize,
    /// What happens to them.
    pub fault: Fault,
}

/// The door; requests under way end when it is dropped.
#[derive(Debug)]
pub struct FaultyDoor {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    target: String,
    node: String,
    rules: Mutex<Vec<FaultRule>>,
    hits: Mutex<Vec<String>>,
}

impl ControlPlane {
    /// Opens a door for a node.
    pub async fn faulty_door(&self, node: &str) -> Result<FaultyDoor> {
        let masters = Identity { name: "door", group: Some("system:masters"), hosts: &[] };
        let shared = Arc::new(Shared {
            client: client(&self.authority.certificate, &self.authority.issue(&masters)?)?,
            target: self.url.clone(),
            node: node.to_owned(),
            rules: Mutex::default(),
            hits: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let kubeconfig = self.instance.path(&format!("{node}-door.kubeconfig"));
        let nobody = Credential::Token("none".to_owned());
        kubeconfig::write(&kubeconfig, &url, &self.authority.certificate, &nobody)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let served = axum::serve(listener, Router::new().fallback(pass).with_state(shared.clone()));
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                result = served => if let Err(error) = result { println!("the door broke: {error}") },
            }
        });
        Ok(FaultyDoor { shared, kubeconfig, _stop: stop.drop_guard() })
    }
}

impl FaultyDoor {
    /// A kubeconfig that leads through the door.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// From now on the fault hits requests that fit.
    pub fn inject(&self, rule: FaultRule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Requests that were hit, as `METHOD URI`.
    pub fn hits(&self) -> Vec<String> {
        lock(&self.shared.hits).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn client(authority: &str, own: &Issued) -> Result<Client<HttpsConnector<HttpConnector>, Body>> {
    let certificate =
        |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).context("read a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(authority)?)?;
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).context("read a key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&own.certificate)?], key)?;
    let connector =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Infallible> {
    let fault = shared.fault_for(&request);
    if fault.is_some() {
        lock(&shared.hits).push(format!("{} {}", request.method(), request.uri()));
    }
    Ok(match fault {
        Some(Fault::Refuse { code, retry_after }) => refused(code, retry_after),
        Some(Fault::Expired) => expired(),
        Some(Fault::Garbage) => answer(StatusCode::OK, Body::from("{\"kind\": \"Pod\", ")),
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Cut(bytes)) => shared.forward(request).await.map(|body| cut(body, bytes)),
        Some(Fault::Slow(pause)) => shared.forward(request).await.map(|body| slow(body, pause)),
        None => shared.forward(request).await,
    })
}

impl Shared {
    fn fault_for(&self, request: &Request) -> Option<Fault> {
        let uri = request.uri().to_string();
        let method = request.method().as_str();
        let mut rules = lock(&self.rules);
        let fits = |rule: &FaultRule| {
            rule.times > 0 && uri.contains(rule.uri_part) && (rule.method.is_empty() || rule.method == method)
        };
        let rule = rules.iter_mut().find(|rule| fits(rule))?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }

    async fn forward(&self, mut request: Request) -> Response {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let parsed = format!("{}{path}", self.target).parse::<Uri>();
        let user = HeaderValue::from_str(&format!("system:node:{}", self.node));
        let (Ok(uri), Ok(user)) = (parsed, user) else { return refused(400, None) };
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        for name in [HOST, CONNECTION, TRANSFER_ENCODING, AUTHORIZATION] {
            headers.remove(name);
        }
        headers.insert(HeaderName::from_static("impersonate-user"), user);
        for group in ["system:nodes", "system:authenticated"] {
            headers.append(HeaderName::from_static("impersonate-group"), HeaderValue::from_static(group));
        }
        match self.client.request(request).await {
            Ok(response) => response.map(Body::new),
            Err(error) => {
                println!("the door cannot reach the API server: {error}");
                refused(502, None)
            }
        }
    }
}

fn answer(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn status(code: u16, retry_after: Option<u32>) -> serde_json::Value {
    let reason = match code {
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": "injected by the test", "details": {"retryAfterSeconds": retry_after.unwrap_or(0)}})
}

fn refused(code: u16, retry_after: Option<u32>) -> Response {
    let known = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(known, Body::from(status(code, retry_after).to_string()));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn expired() -> Response {
    let event = json!({"type": "ERROR", "object": status(410, None)});
    answer(StatusCode::OK, Body::from(format!("{event}\n")))
}

fn cut(body: Body, bytes: usize) -> Body {
    let mut left = bytes;
    let parts = body.into_data_stream().map_while(move |part: Result<Bytes, axum::Error>| {
        if left == 0 {
            return None;
        }
        let part = part.map(|bytes| bytes.slice(..bytes.len().min(left)));
        left -= part.as_ref().map_or(left, Bytes::len);
        Some(part)
    });
    Body::from_stream(parts)
}

fn slow(body: Body, pause: Duration) -> Body {
    Body::from_stream(body.into_data_stream().then(move |part| async move {
        tokio::time::sleep(pause).await;
        part
    }))
}
