//! An HTTPS server on loopback for tests. It identifies clients by their certificates.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::clients::{ClientSettings, Clients, ConnectError};
use crate::identity::test_certificates::{Authority, issued};
use crate::identity::{CertificateNames, Credential};
use crate::identity::{CurrentCertificate, ServerAccess};

/// A time in the far future, in seconds since the epoch.
pub(crate) const FAR_FUTURE: i64 = 4_000_000_000;

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// From the client certificate; empty without one.
    pub(crate) names: CertificateNames,
    /// Index of the connection, from zero.
    pub(crate) connection: usize,
}

pub(crate) type Reply = Response<BoxBody<Bytes, Infallible>>;
type Handler = dyn Fn(Request<Incoming>, Peer) -> BoxFuture<'static, Reply> + Send + Sync;

/// Stops when dropped.
pub(crate) struct TestServer {
    pub(crate) authority: Authority,
    pub(crate) url: String,
    _accepting: AbortOnDropHandle<()>,
}

impl TestServer {
    pub(crate) async fn start<F, R>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>, Peer) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let authority = Authority::new();
        let handler: Arc<Handler> = Arc::new(move |request, peer| Box::pin(handler(request, peer)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let acceptor = TlsAcceptor::from(Arc::new(tls(&authority)));
        let accepting = AbortOnDropHandle::new(tokio::spawn(async move {
            let connections = AtomicUsize::new(0);
            let mut serving = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = connections.fetch_add(1, Ordering::Relaxed);
                serving.spawn(serve(acceptor.clone(), stream, connection, handler.clone()));
            }
        }));
        Self { authority, url, _accepting: accepting }
    }

    /// Returns a kubeconfig for this server and `user`.
    pub(crate) fn kubeconfig(&self, user: &serde_json::Value) -> String {
        let authority = STANDARD.encode(self.authority.pem());
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        })
        .to_string()
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    stream: tokio::net::TcpStream,
    connection: usize,
    handler: Arc<Handler>,
) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    let names =
        certificate.map(|certificate| Credential::names_of(&certificate).unwrap()).unwrap_or_default();
    let peer = Peer { names, connection };
    let service = service_fn(move |request| {
        let reply = handler(request, peer.clone());
        async move { Ok::<_, Infallible>(reply.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(100);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn tls(authority: &Authority) -> ServerConfig {
    let (certificate, key) = issued(authority, "server", &["127.0.0.1"], 0, FAR_FUTURE);
    let credential = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
    let resolver = rustls::sign::SingleCertAndKey::from(credential.key);
    let mut config =
        ServerConfig::builder().with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

pub(crate) fn reply(code: u16, body: impl Into<Bytes>) -> Reply {
    Response::builder().status(code).body(Full::new(body.into()).boxed()).unwrap()
}

impl Clients {
    /// Creates clients with the credentials of a kubeconfig, whose certificate is not renewed.
    pub(crate) async fn from_kubeconfig(path: &Path) -> Result<Self, ConnectError> {
        let access = ServerAccess::read(path).await?;
        let credential = access.certificate.load();
        let credential =
            credential.map_err(|source| ConnectError::Certificate { path: path.to_owned(), source })?;
        let certificate = credential.map(|credential| CurrentCertificate::new(Some(credential)));
        Ok(Self::open(access, certificate, ClientSettings::default(), Arc::new(())).await?.0)
    }
}
