//! Processes over WebSocket.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tokio_websockets::{CloseCode, Limits, Message, ServerBuilder, WebSocketStream};

use super::backend::StreamOptions;
use super::channels::{ChannelProtocol, ClientMessage, OutputChannel};
use super::client::{Activity, Client, ClientInput, Input, Output, client};
use super::resize::Resizes;

/// Clients send messages of 32 KiB.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Detects clients that have left while nothing is read from them.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(10);
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for T {}

pub(super) fn accept<C: Connection>(connection: C) -> WebSocketStream<C> {
    let limits = Limits::default().max_payload_len(Some(MAX_MESSAGE_BYTES));
    ServerBuilder::new().limits(limits).serve(connection)
}

type ToClient<C> = SplitSink<WebSocketStream<C>, Message>;
type FromClient<C> = SplitStream<WebSocketStream<C>>;

/// Serves one process until it ends or until `gone`.
pub(super) async fn serve_process<C, F>(
    connection: C,
    protocol: ChannelProtocol,
    options: StreamOptions,
    (activity, gone): (Activity, CancellationToken),
    session: impl FnOnce(Client) -> F,
) where
    C: Connection,
    F: Future<Output = ()>,
{
    let (mut sink, mut source) = accept(connection).split();
    let (client, input, output) = client(gone.clone());
    let reading = async {
        tokio::select! {
            () = read(&mut source, protocol, &input, &activity) => {}
            () = activity.idle() => {}
        }
        gone.cancel();
        std::future::pending::<()>().await;
    };
    let writing = async {
        let writing = write(&mut sink, protocol, options, output, &activity);
        let written = tokio::select! {
            () = gone.cancelled() => Err(io::ErrorKind::ConnectionAborted.into()),
            written = writing => written,
        };
        if written.is_err() {
            gone.cancel();
        }
    };
    tokio::select! {
        () = reading => {}
        _ = async { tokio::join!(session(client), writing) } => {}
    }
    close(sink, source, &gone).await;
}

/// Closes a WebSocket and waits a short time for the client to close it, too, unless that is `gone`.
pub(super) async fn close<C: Connection>(
    mut sink: ToClient<C>,
    mut source: FromClient<C>,
    gone: &CancellationToken,
) {
    let closed = async {
        let _ = sink.send(Message::close(Some(CloseCode::NORMAL_CLOSURE), "")).await;
        while let Some(Ok(_)) = source.next().await {}
    };
    // A client that does not answer is left to the kernel.
    let _ = gone.run_until_cancelled(timeout(CLOSE_TIMEOUT, closed)).await;
}

async fn read<C: Connection>(
    source: &mut FromClient<C>,
    protocol: ChannelProtocol,
    client: &ClientInput,
    activity: &Activity,
) {
    let mut resizes = Resizes::default();
    while let Some(Ok(message)) = source.next().await {
        if !(message.is_binary() || message.is_text()) {
            continue;
        }
        activity.record();
        let payload = Bytes::from(message.into_payload());
        let sent = match protocol.read(&payload) {
            ClientMessage::Input(bytes) => client.input.send(Input::Data(bytes)).await,
            ClientMessage::InputEnd => client.input.send(Input::End).await,
            ClientMessage::Resize(bytes) => {
                if let Some(size) = resizes.push(&bytes) {
                    client.size.send_replace(Some(size));
                }
                Ok(())
            }
            ClientMessage::Nothing => Ok(()),
            ClientMessage::Invalid => return,
        };
        if sent.is_err() {
            // The session has ended, and the client receives the rest of the output.
            while let Some(Ok(_)) = source.next().await {}
        }
    }
}

async fn write<C: Connection>(
    sink: &mut ToClient<C>,
    protocol: ChannelProtocol,
    options: StreamOptions,
    mut output: mpsc::Receiver<Output>,
    activity: &Activity,
) -> io::Result<()> {
    let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // An empty message shows the client that the connection is established.
    let first = match options {
        StreamOptions { stdout: true, .. } => OutputChannel::Stdout,
        StreamOptions { stderr: true, tty: false, .. } => OutputChannel::Stderr,
        _ => OutputChannel::Status,
    };
    send(sink, protocol, first, b"").await?;
    loop {
        let next = tokio::select! {
            next = output.recv() => next,
            _ = pings.tick() => {
                sink.send(Message::ping(Bytes::new())).await.map_err(io::Error::other)?;
                continue;
            }
        };
        let Some(next) = next else { return Ok(()) };
        activity.record();
        match next {
            Output::Stdout(bytes) => send(sink, protocol, OutputChannel::Stdout, &bytes).await?,
            Output::Stderr(bytes) => send(sink, protocol, OutputChannel::Stderr, &bytes).await?,
            Output::StdoutEnd | Output::StderrEnd => {}
            Output::Status(outcome) => {
                let status = if protocol.has_status {
                    Some(outcome.to_json())
                } else {
                    outcome.to_text().map(String::into_bytes)
                };
                if let Some(status) = status {
                    send(sink, protocol, OutputChannel::Status, &status).await?;
                }
            }
        }
    }
}

async fn send<C: Connection>(
    sink: &mut ToClient<C>,
    protocol: ChannelProtocol,
    channel: OutputChannel,
    content: &[u8],
) -> io::Result<()> {
    let (payload, is_text) = protocol.write(channel, content);
    let message = match std::str::from_utf8(&payload) {
        Ok(text) if is_text => Message::text(text.to_owned()),
        _ => Message::binary(payload),
    };
    sink.send(message).await.map_err(io::Error::other)
}
