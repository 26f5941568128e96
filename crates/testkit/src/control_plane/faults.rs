//! A proxy in front of the API server that injects faults.
//!
//! HTTPS on loopback, HTTP/2 or HTTP/1.1 as the client prefers. It forwards requests to the real API server and
//! impersonates the node, so authorizers and the audit log see the node.

use parking_lot::{Mutex, MutexGuard};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderName, TRANSFER_ENCODING};
use axum::http::{HeaderValue, Uri, Version};
use axum::response::Response;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::ControlPlane;
use super::certificates::{Authority, Identity, Issued};
use super::kubeconfig::{self, Credential};
use answers::{answer, cut, expired, refused, slow};
use listener::{Connection, Listener};

mod answers;
mod listener;

pub use listener::ServerCertificate;

#[derive(Clone, Debug)]
pub enum Fault {
    /// Rejects the request with a status and an optional `Retry-After`.
    Refuse {
        code: u16,
        /// In seconds.
        retry_after: Option<u32>,
    },
    /// A watch receives an event with code 410, resource version too old.
    Expired,
    /// Truncates the response body after this many bytes.
    Cut(usize),
    /// Responds with truncated JSON.
    Garbage,
    /// Delays each chunk of the response.
    Slow(Duration),
    /// Accepts the request and never responds.
    Silence,
    /// Resets the connection before the request reaches the API server.
    ResetBefore,
    /// Resets the connection after the API server has processed the request.
    ResetAfter,
    /// Returns lists in pages of one object.
    SmallPages,
}

/// A fault and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Substring of path and query, such as `watch=true` or `/status`.
    pub uri_part: &'static str,
    /// HTTP method, such as `PATCH`; empty matches all.
    pub method: &'static str,
    /// Number of requests to hit.
    pub times: usize,
    pub fault: Fault,
}

/// The proxy. Dropping it closes the listener and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    listener: Listener,
    kubeconfig: PathBuf,
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
    /// Starts a proxy for a node.
    pub async fn fault_proxy(&self, node: &str) -> Result<FaultProxy> {
        let masters = Identity { name: "proxy", group: Some("system:masters"), hosts: &[] };
        let shared = Arc::new(Shared {
            client: client(&self.authority.certificate, &self.authority.issue(&masters)?)?,
            target: self.url.clone(),
            node: node.to_owned(),
            rules: Mutex::default(),
            hits: Mutex::default(),
        });
        let router = axum::Router::new().fallback(pass).with_state(shared.clone());
        let listener = Listener::open(&self.authority, router).await?;
        let kubeconfig = self.instance.path(&format!("{node}-proxy.kubeconfig"));
        let nobody = Credential::Token("none".to_owned());
        let url = format!("https://{}", listener.address());
        kubeconfig::write(&kubeconfig, &url, &self.authority.certificate, &nobody)?;
        Ok(FaultProxy { shared, listener, kubeconfig })
    }
}

impl FaultProxy {
    /// A kubeconfig that points to the proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    pub fn inject(&self, rule: FaultRule) {
        lock(&self.shared.rules).push(rule);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Resets all connections, so that clients restart their watches.
    pub fn reset_connections(&self) {
        self.listener.reset_connections();
    }

    /// Changes the server certificate; resets connections made with another one.
    pub fn present(&self, certificate: ServerCertificate) {
        self.listener.present(certificate);
    }

    /// Number of TLS handshakes that clients aborted.
    pub fn refused_handshakes(&self) -> usize {
        self.listener.refused_handshakes()
    }

    /// Requests hit by faults since the last call, as `METHOD URI`.
    pub fn take_hits(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.hits))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
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
    if let Some(fault) = &fault {
        lock(&shared.hits).push(format!("{fault:?}: {} {}", request.method(), request.uri()));
    }
    let connection = request.extensions().get::<Connection>().cloned();
    Ok(match fault {
        Some(Fault::Refuse { code, retry_after }) => refused(code, retry_after),
        Some(Fault::Expired) => expired(),
        Some(Fault::Garbage) => answer(axum::http::StatusCode::OK, Body::from("{\"kind\": \"Pod\", ")),
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::ResetBefore) => reset(connection).await,
        Some(Fault::ResetAfter) => {
            shared.forward(request).await;
            reset(connection).await
        }
        Some(Fault::Cut(bytes)) => shared.forward(request).await.map(|body| cut(body, bytes)),
        Some(Fault::Slow(pause)) => shared.forward(request).await.map(|body| slow(body, pause)),
        Some(Fault::SmallPages) => shared.forward(with_small_pages(request)).await,
        None => shared.forward(request).await,
    })
}

/// Resets the connection of a request without a response.
async fn reset(connection: Option<Connection>) -> Response {
    if let Some(connection) = connection {
        connection.reset();
    }
    std::future::pending().await
}

fn with_small_pages(mut request: Request) -> Request {
    let small = request.uri().to_string().replace("limit=500", "limit=1").parse::<Uri>();
    if let Ok(uri) = small {
        *request.uri_mut() = uri;
    }
    request
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
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        for name in [HOST, CONNECTION, TRANSFER_ENCODING, AUTHORIZATION] {
            headers.remove(name);
        }
        headers.insert(HeaderName::from_static("impersonate-user"), user);
        for group in ["system:nodes", "system:authenticated"] {
            headers.append(HeaderName::from_static("impersonate-group"), HeaderValue::from_static(group));
        }
        match self.client.request(request).await {
            Ok(mut response) => {
                // Hop-by-hop headers are set again for the client's connection.
                for name in [CONNECTION, TRANSFER_ENCODING] {
                    response.headers_mut().remove(name);
                }
                *response.version_mut() = Version::default();
                response.map(Body::new)
            }
            Err(error) => {
                println!("the proxy cannot reach the API server: {error}");
                refused(502, None)
            }
        }
    }
}
