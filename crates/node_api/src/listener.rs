//! Plain HTTP listeners.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Wait before a busy port is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// Serves a router until cancelled. A port that is taken is tried again.
pub async fn serve(name: &'static str, address: SocketAddr, router: Router, cancel: CancellationToken) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                tracing::error!(%name, %address, %error, "cannot listen; trying again in {BIND_AGAIN:?}");
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(BIND_AGAIN) => {}
        }
    };
    tracing::info!(%name, %address, "listening");
    let served = axum::serve(listener, router).with_graceful_shutdown(cancel.clone().cancelled_owned());
    tokio::select! {
        // Connections that stay open must not hold up a stop.
        () = async { cancel.cancelled().await; tokio::time::sleep(Duration::from_millis(200)).await } => {}
        result = served => if let Err(error) = result {
            tracing::error!(%name, %address, %error, "listener failed");
        },
    }
}
