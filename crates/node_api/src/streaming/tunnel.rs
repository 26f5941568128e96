//! SPDY that a client carries in the messages of a WebSocket.

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;
use decide::streaming::TUNNEL_PREFIX;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_websockets::Message;

use super::backend::{self, Answer, Connection, PROTOCOL_VERSION};
use super::closing::GRACE;
use super::handshake::{Handshake, WebSocket, socket};
use super::raw::switching;
use super::{Refusal, Sessions};

const PIECE: usize = 32 * 1024;

/// Asks the runtime for SPDY and, if it agrees, unwraps the client's messages.
pub(super) async fn start(
    sessions: &Sessions,
    url: &str,
    protocols: &[String],
    mut request: Request,
) -> Result<Response, Refusal> {
    let handshake = Handshake::read(&mut request)?;
    let (head, runtime) = match backend::open(sessions, url, Method::POST, backend::spdy(protocols)).await? {
        Answer::Refused(answer) => return Ok(answer),
        Answer::Upgraded(head, runtime) => (head, runtime),
    };
    let chosen = head.headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let chosen = chosen.map(|protocol| format!("{TUNNEL_PREFIX}{}", protocol.trim()));
    let (headers, upgrade) = handshake.answer(chosen.as_deref());
    sessions.start(async move {
        if let Some(client) = socket(upgrade).await {
            join(client, runtime).await;
        }
    });
    Ok(switching(headers))
}

async fn join(client: WebSocket, runtime: Connection) {
    let (mut to_client, mut from_client) = client.split();
    let (mut from_runtime, mut to_runtime) = tokio::io::split(runtime);
    {
        let upwards = unwrap(&mut from_client, &mut to_runtime);
        let downwards = wrap(&mut from_runtime, &mut to_client);
        tokio::pin!(upwards, downwards);
        tokio::select! {
            () = &mut downwards => {}
            () = &mut upwards => {
                let _ = tokio::time::timeout(GRACE, downwards).await;
            }
        }
    }
    finish(to_client, from_client).await;
}

/// Closes a WebSocket and waits a moment for the client to do the same.
pub(super) async fn finish(
    mut to_client: SplitSink<WebSocket, Message>,
    mut from_client: SplitStream<WebSocket>,
) {
    let closed = async {
        let _ = to_client.close().await;
        while let Some(Ok(_)) = from_client.next().await {}
    };
    let _ = tokio::time::timeout(GRACE, closed).await;
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
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let bytes = Bytes::copy_from_slice(piece.get(..count).unwrap_or_default());
        if to.send(Message::binary(bytes)).await.is_err() {
            return;
        }
    }
}
