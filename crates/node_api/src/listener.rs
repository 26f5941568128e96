//! Listeners: plain HTTP, or HTTPS that requests a client certificate.
//!
//! A flood of connections costs a bounded amount of memory and does not shut out others ([`connection_table`]). A connection
//! is closed if its first request is not recognised in time.

mod connection;
mod connection_table;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use connection::{AcceptedConnection, serve_connection};
use connection_table::ConnectionTable;
pub(crate) use connection_table::OpenConnection;

/// How long to wait after a failed bind, mostly because the port is in use.
const BIND_RETRY: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept, mostly because of too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long in-flight requests may take when the agent stops.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// Serves a router over plain HTTP until cancelled. Retries while the port is in use.
pub async fn serve(name: &'static str, address: SocketAddr, router: Router, cancel: CancellationToken) {
    if let Some(listener) = bind(name, address, &cancel).await {
        accept(name, listener, None, router, ConnectionTable::default(), cancel).await;
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
        let tls = Some(TlsAcceptor::from(tls));
        accept(name, listener, tls, router, ConnectionTable::default(), cancel).await;
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
    table: ConnectionTable,
    cancel: CancellationToken,
) {
    let mut connections = JoinSet::new();
    let mut accept_log = AcceptLog::default();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    accept_log.succeeded(name);
                    // Without room the connection is closed at once.
                    if let Some(connection) = table.add(address) {
                        let accepted = AcceptedConnection { stream, address, connection };
                        connections.spawn(serve_connection(accepted, tls.clone(), router.clone(), cancel.clone()));
                    }
                }
                Err(error) => {
                    accept_log.failed(name, &error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            },
        }
    }
    // Connections that stay open must not delay the stop.
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_GRACE, all).await;
}

/// Logs the first of several equal failures: without free descriptors, every retry fails.
#[derive(Default)]
struct AcceptLog {
    last: Option<String>,
    repeated: u64,
}

impl AcceptLog {
    fn failed(&mut self, name: &str, error: &std::io::Error) {
        let text = error.to_string();
        if self.last.as_ref() == Some(&text) {
            self.repeated += 1;
            return;
        }
        tracing::warn!(%name, %error, "failed to accept connection, retrying every {ACCEPT_RETRY:?}");
        (self.last, self.repeated) = (Some(text), 0);
    }

    fn succeeded(&mut self, name: &str) {
        if self.last.take().is_some() {
            tracing::info!(%name, failures = self.repeated + 1, "accepting connections again");
        }
    }
}

#[cfg(test)]
mod tests;
