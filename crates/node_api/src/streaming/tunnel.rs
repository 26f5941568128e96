//! Unwraps SPDY that a client sends inside WebSocket messages.

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;
use decide::http::streaming::TUNNEL_PREFIX;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_websockets::Message;

use super::backend::{self, Connection, PROTOCOL_VERSION, UpgradeResult};
use super::closing::CLOSE_TIMEOUT;
use super::handshake::{Handshake, WebSocket, socket};
use super::passthrough::switching_protocols;
use super::{ErrorResponse, StreamSessions};

const CHUNK: usize = 32 * 1024;

/// Requests SPDY from the runtime and, if it accepts, starts the tunnel.
pub(super) async fn start(
    sessions: &StreamSessions,
    url: &str,
    protocols: &[String],
    mut request: Request,
) -> Result<Response, ErrorResponse> {
    let handshake = Handshake::read(&mut request)?;
    let (head, runtime) =
        match backend::open(sessions, url, Method::POST, backend::spdy_headers(protocols)).await? {
            UpgradeResult::Rejected(response) => return Ok(response),
            UpgradeResult::Upgraded(head, runtime) => (head, runtime),
        };
    let chosen = head.headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let chosen = chosen.map(|protocol| format!("{TUNNEL_PREFIX}{}", protocol.trim()));
    let (headers, upgrade) = handshake.respond(chosen.as_deref());
    sessions.start(async move {
        if let Some(client) = socket(upgrade).await {
            copy_both_ways(client, runtime).await;
        }
    });
    Ok(switching_protocols(headers))
}

async fn copy_both_ways(client: WebSocket, runtime: Connection) {
    let (mut to_client, mut from_client) = client.split();
    let (mut from_runtime, mut to_runtime) = tokio::io::split(runtime);
    {
        let upwards = unwrap(&mut from_client, &mut to_runtime);
        let downwards = wrap(&mut from_runtime, &mut to_client);
        tokio::pin!(upwards, downwards);
        tokio::select! {
            () = &mut downwards => {}
            () = &mut upwards => {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, downwards).await;
            }
        }
    }
    close(to_client, from_client).await;
}

/// Closes a WebSocket and waits a short time for the client to close it, too.
pub(super) async fn close(
    mut to_client: SplitSink<WebSocket, Message>,
    mut from_client: SplitStream<WebSocket>,
) {
    let closed = async {
        let _ = to_client.close().await;
        while let Some(Ok(_)) = from_client.next().await {}
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
}

async fn unwrap(from: &mut SplitStream<WebSocket>, to: &mut WriteHalf<Connection>) {
    while let Some(Ok(message)) = from.next().await {
        if !message.is_binary() {
            continue;
        }
        let payload = Bytes::from(message.into_payload());
        if to.write_all(&payload).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

async fn wrap(from: &mut ReadHalf<Connection>, to: &mut SplitSink<WebSocket, Message>) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let bytes = Bytes::copy_from_slice(chunk.get(..count).unwrap_or_default());
        if to.send(Message::binary(bytes)).await.is_err() {
            return;
        }
    }
}
