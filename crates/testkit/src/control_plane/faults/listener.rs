//! The proxy's connections: server certificates and resets.

use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt;

use super::{Authority, Identity, Issued, lock};
use crate::control_plane::certificates::Validity;

/// A server certificate of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerCertificate {
    /// Signed by the cluster's authority and valid now.
    Valid,
    UnknownAuthority,
    /// Valid in the future: the node's clock is behind, or the server's is ahead.
    NotYetValid,
    /// Expired: the node's clock is ahead, or the certificate was not renewed.
    Expired,
}

/// One connection, passed to the requests that arrive on it.
#[derive(Clone, Debug)]
pub(super) struct Connection(CancellationToken);

impl Connection {
    pub(super) fn reset(&self) {
        self.0.cancel();
    }
}

#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    state: Arc<ListenerState>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct ListenerState {
    authority: ServerConfigs,
    tls: Mutex<Arc<ServerConfig>>,
    /// Parent of all connection tokens.
    stop: CancellationToken,
    /// Parent of the tokens of open connections.
    live: Mutex<CancellationToken>,
    refused: AtomicUsize,
}

/// One server configuration per certificate.
#[derive(Debug)]
struct ServerConfigs {
    valid: Arc<ServerConfig>,
    unknown: Arc<ServerConfig>,
    early: Arc<ServerConfig>,
    late: Arc<ServerConfig>,
}

impl Listener {
    /// Listens on a free loopback port and serves `router`.
    pub(super) async fn open(authority: &Authority, router: Router) -> Result<Self> {
        let configs = ServerConfigs::create(authority)?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let state = Arc::new(ListenerState {
            tls: Mutex::new(configs.valid.clone()),
            authority: configs,
            live: Mutex::new(stop.child_token()),
            stop: stop.clone(),
            refused: AtomicUsize::new(0),
        });
        let (accepting, stopped) = (state.clone(), stop.clone());
        tokio::spawn(async move {
            while let Some(accepted) = stopped.run_until_cancelled(listener.accept()).await {
                let Ok((stream, _)) = accepted else { continue };
                tokio::spawn(accepting.clone().serve(stream, router.clone()));
            }
        });
        Ok(Self { address, state, _stop: stop.drop_guard() })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn reset_connections(&self) {
        self.state.reset_connections();
    }

    pub(super) fn present(&self, certificate: ServerCertificate) {
        let all = &self.state.authority;
        let chosen = match certificate {
            ServerCertificate::Valid => &all.valid,
            ServerCertificate::UnknownAuthority => &all.unknown,
            ServerCertificate::NotYetValid => &all.early,
            ServerCertificate::Expired => &all.late,
        };
        *lock(&self.state.tls) = chosen.clone();
        self.state.reset_connections();
    }

    pub(super) fn refused_handshakes(&self) -> usize {
        self.state.refused.load(Ordering::Relaxed)
    }
}

impl ListenerState {
    fn reset_connections(&self) {
        let mut live = lock(&self.live);
        live.cancel();
        *live = self.stop.child_token();
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, router: Router) {
        let ended = lock(&self.live).child_token();
        // Closing a socket with zero linger sends a reset. It is only closed on purpose or by the client.
        if stream.set_zero_linger().is_err() {
            return;
        }
        let tls = lock(&self.tls).clone();
        let work = async {
            let handshake = TlsAcceptor::from(tls).accept(stream);
            let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(10), handshake).await else {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return;
            };
            let connection = Connection(ended.clone());
            let service = router.map_request(move |mut request: Request<_>| {
                request.extensions_mut().insert(connection.clone());
                request
            });
            let builder = Builder::new(TokioExecutor::new());
            // Errors of a connection are the client's to handle.
            let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
        };
        ended.run_until_cancelled(work).await;
    }
}

impl ServerConfigs {
    fn create(authority: &Authority) -> Result<Self> {
        let stranger = Authority::create()?;
        Ok(Self {
            valid: server(authority, Validity::Now)?,
            unknown: server(&stranger, Validity::Now)?,
            early: server(authority, Validity::Later)?,
            late: server(authority, Validity::Past)?,
        })
    }
}

fn server(authority: &Authority, validity: Validity) -> Result<Arc<ServerConfig>> {
    let proxy = Identity { name: "proxy", group: None, hosts: &["127.0.0.1", "localhost"] };
    let Issued { certificate, key } = authority.issue_valid(&proxy, validity)?;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).context("read a certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).context("read a key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
