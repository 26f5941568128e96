//! Listeners: plain HTTP, or HTTPS that asks clients for a certificate.
//!
//! A flood of connections costs a bounded amount of memory: who is not recognised soon is cut off, and there are only so
//! many strangers at a time.

mod activity;
mod connection;
mod strangers;

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

use connection::{Admitted, serve_connection};
pub(crate) use strangers::Stranger;
use strangers::Strangers;

/// Wait before a busy port is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);
/// Wait when no connection can be taken, as without free descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Connections at once, upgraded ones among them.
const CONNECTIONS: usize = 2048;
/// What requests under way may take when the agent stops.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// Serves a router over plain HTTP until cancelled. A port that is taken is tried again.
pub async fn serve(name: &'static str, address: SocketAddr, router: Router, cancel: CancellationToken) {
    if let Some(listener) = bind(name, address, &cancel).await {
        accept(name, listener, None, router, cancel).await;
    }
}

/// Serves a router over HTTPS until cancelled. A port that is taken is tried again.
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
                tracing::error!(%name, %address, %error, "cannot listen; trying again in {BIND_AGAIN:?}");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(BIND_AGAIN) => {}
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
    let (places, strangers) = (Arc::new(Semaphore::new(CONNECTIONS)), Strangers::default());
    let mut connections = JoinSet::new();
    loop {
        let next = next_connection(&listener, &places, &strangers);
        tokio::select! {
            () = cancel.cancelled() => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = next => match accepted {
                Ok(admitted) => {
                    let served = serve_connection(admitted, tls.clone(), router.clone(), cancel.clone());
                    connections.spawn(served);
                }
                Err(error) => {
                    tracing::warn!(%name, %error, "cannot take a connection");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
        }
    }
    // Connections that stay open must not hold up a stop.
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_GRACE, all).await;
}

async fn next_connection(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    strangers: &Strangers,
) -> std::io::Result<Admitted> {
    let place = places.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, address): (TcpStream, SocketAddr) = listener.accept().await?;
    Ok(Admitted { stream, address, place, stranger: strangers.admit() })
}

#[cfg(test)]
mod tests;
