//! The door's connections: the certificate it shows, and how connections are reset.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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

/// A certificate that the door can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presented {
    /// Signed by the cluster's authority, valid now.
    Right,
    /// Signed by somebody else.
    UnknownAuthority,
    /// Valid in the far future: the node's clock is behind, or the server's ahead.
    NotYetValid,
    /// Valid long ago: the node's clock is ahead, or nobody has renewed it.
    Expired,
}

/// One connection, as seen by the requests that come on it.
#[derive(Clone, Debug)]
pub(super) struct Connection(CancellationToken);

impl Connection {
    /// Ends it with a reset.
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
    authority: Presentable,
    tls: Mutex<Arc<ServerConfig>>,
    /// Parent of all connections ever.
    stop: CancellationToken,
    /// Parent of all connections that live.
    live: Mutex<CancellationToken>,
    refused: AtomicUsize,
}

/// One server side per certificate.
#[derive(Debug)]
struct Presentable {
    right: Arc<ServerConfig>,
    unknown: Arc<ServerConfig>,
    early: Arc<ServerConfig>,
    late: Arc<ServerConfig>,
}

impl Listener {
    /// Listens on a free port of loopback and serves `router`.
    pub(super) async fn open(authority: &Authority, router: Router) -> Result<Self> {
        let presentable = Presentable::create(authority)?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let state = Arc::new(ListenerState {
            tls: Mutex::new(presentable.right.clone()),
            authority: presentable,
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

    /// Resets all connections.
    pub(super) fn hang_up(&self) {
        self.state.hang_up();
    }

    /// Shows another certificate from now on.
    pub(super) fn present(&self, certificate: Presented) {
        let all = &self.state.authority;
        let chosen = match certificate {
            Presented::Right => &all.right,
            Presented::UnknownAuthority => &all.unknown,
            Presented::NotYetValid => &all.early,
            Presented::Expired => &all.late,
        };
        *lock(&self.state.tls) = chosen.clone();
        self.state.hang_up();
    }

    pub(super) fn refused_handshakes(&self) -> usize {
        self.state.refused.load(Ordering::Relaxed)
    }
}

impl ListenerState {
    fn hang_up(&self) {
        let mut live = lock(&self.live);
        live.cancel();
        *live = self.stop.child_token();
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, router: Router) {
        let ended = lock(&self.live).child_token();
        // A closed socket that lingers for no time is a reset one; it is closed only on purpose or by the client.
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
            // How a connection ends is the client's affair.
            let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
        };
        ended.run_until_cancelled(work).await;
    }
}

impl Presentable {
    fn create(authority: &Authority) -> Result<Self> {
        let stranger = Authority::create()?;
        Ok(Self {
            right: server(authority, Validity::Now)?,
            unknown: server(&stranger, Validity::Now)?,
            early: server(authority, Validity::Later)?,
            late: server(authority, Validity::Past)?,
        })
    }
}

fn server(authority: &Authority, validity: Validity) -> Result<Arc<ServerConfig>> {
    let door = Identity { name: "door", group: None, hosts: &["127.0.0.1", "localhost"] };
    let Issued { certificate, key } = authority.issue_valid(&door, validity)?;
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
