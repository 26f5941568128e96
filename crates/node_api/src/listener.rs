//! Listeners: plain HTTP, or HTTPS that requests a client certificate.
//!
//! A flood of connections costs a bounded amount of memory: the number of unauthenticated connections is limited, and
//! each of them is closed if no request is authenticated in time.

mod activity;
mod connection;
mod unauthenticated_connections;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use connection::{AcceptedConnection, serve_connection};
pub(crate) use unauthenticated_connections::UnauthenticatedConnection;
use unauthenticated_connections::UnauthenticatedConnections;

/// How long to wait after a failed bind, mostly because the port is in use.
const BIND_RETRY: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept, mostly because of too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Includes upgraded connections.
const MAX_CONNECTIONS: usize = 2048;
/// How long in-flight requests may take when the agent stops.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// Serves a router over plain HTTP until cancelled. Retries while the port is in use.
pub async fn serve(name: &'static str, address: SocketAddr, router: Router, cancel: CancellationToken) {
    if let Some(listener) = bind(name, address, &cancel).await {
        accept(name, listener, None, router, cancel).await;
    }
}

/// Serves a router over HTTPS until cancelled. Retries while the port is in use.
pub async fn serve_tls(
    name: &'static str,
    address: SocketAddr,
    tls: Arc<ServerConfig>,
    router: Router,
    cancel: CancellationToken,
) {
    if let Some(listener) = bind(name, address, &cancel).await {
        accept(name, listener, Some(TlsAcceptor::from(tls)), router, cancel).await;
    }
}

async fn bind(name: &str, address: SocketAddr, cancel: &CancellationToken) -> Option<TcpListener> {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                tracing::info!(%name, %address, "listening");
                return Some(listener);
            }
            Err(error) => {
                tracing::error!(%name, %address, %error, "failed to listen, retrying in {BIND_RETRY:?}");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(BIND_RETRY) => {}
        }
    }
}

async fn accept(
    name: &'static str,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    cancel: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let unauthenticated = UnauthenticatedConnections::default();
    let mut connections = JoinSet::new();
    loop {
        let next = next_connection(&listener, &permits, &unauthenticated);
        tokio::select! {
            () = cancel.cancelled() => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = next => match accepted {
                Ok(accepted) => {
                    let served = serve_connection(accepted, tls.clone(), router.clone(), cancel.clone());
                    connections.spawn(served);
                }
                Err(error) => {
                    tracing::warn!(%name, %error, "failed to accept connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    // Connections that stay open must not delay the stop.
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_GRACE, all).await;
}

async fn next_connection(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    unauthenticated: &UnauthenticatedConnections,
) -> std::io::Result<AcceptedConnection> {
    let permit = permits.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, address): (TcpStream, SocketAddr) = listener.accept().await?;
    Ok(AcceptedConnection { stream, address, permit, unauthenticated: unauthenticated.add() })
}

#[cfg(test)]
mod tests;
