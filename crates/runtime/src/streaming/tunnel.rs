//! SPDY frames inside the binary messages of a WebSocket.

use bytes::{Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use tokio_websockets::{Message, WebSocketStream};

use super::websocket::{Connection, accept, close};

pub(super) const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
const CHUNK_BYTES: usize = 32 * 1024;

/// Unwraps the frames for `serve`, until it ends or the client leaves.
pub(super) async fn serve<C, F>(
    connection: C,
    gone: &CancellationToken,
    serve: impl FnOnce(DuplexStream) -> F,
) where
    C: Connection,
    F: Future<Output = ()>,
{
    let (mut sink, mut source) = accept(connection).split();
    let (inner, outer) = tokio::io::duplex(CHUNK_BYTES);
    let (mut from_server, mut to_server) = tokio::io::split(outer);
    let unwrapping = async {
        unwrap(&mut source, &mut to_server).await;
        // The server reads the end and closes.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = unwrapping => {}
        _ = async { tokio::join!(serve(inner), wrap(&mut from_server, &mut sink)) } => {}
    }
    close(sink, source, gone).await;
}

async fn unwrap<C: Connection>(
    source: &mut SplitStream<WebSocketStream<C>>,
    server: &mut WriteHalf<DuplexStream>,
) {
    while let Some(Ok(message)) = source.next().await {
        if message.is_binary() && server.write_all(&Bytes::from(message.into_payload())).await.is_err() {
            return;
        }
    }
    // The server may have closed its side.
    let _ = server.shutdown().await;
}

async fn wrap<C: Connection>(
    server: &mut ReadHalf<DuplexStream>,
    sink: &mut SplitSink<WebSocketStream<C>, Message>,
) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK_BYTES);
        let Ok(1..) = server.read_buf(&mut buffer).await else { return };
        if sink.send(Message::binary(buffer.split().freeze())).await.is_err() {
            return;
        }
    }
}
