//! The streams of one process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use decide::http::streaming::{Channel, ChannelMessage, to_client};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use model::StreamChoice;
use serde_json::json;
use spdy::{Frame, FrameReader, FrameWriter, SpdyError, StreamId};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_websockets::Message;

use crate::streaming::backend::Connection;
use crate::streaming::handshake::WebSocket;
use crate::streaming::tunnel::close;

const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
const PING_INTERVAL: Duration = Duration::from_secs(5);
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);
/// In bytes. The rest of a longer status is dropped.
const MAX_STATUS: usize = 64 * 1024;

const ERROR: StreamId = 1;
const STDIN: StreamId = 3;
const STDOUT: StreamId = 5;
const STDERR: StreamId = 7;
const RESIZE: StreamId = 9;

type ToRuntime = FrameWriter<WriteHalf<Connection>>;
type FromRuntime = FrameReader<ReadHalf<Connection>>;

/// The streams of a process, accepted by the runtime.
pub(super) struct Session {
    reader: FromRuntime,
    writer: ToRuntime,
    streams: StreamChoice,
}

impl Session {
    /// Opens the streams. The runtime starts the process when it has accepted all of them.
    pub(super) async fn open(runtime: Connection, streams: StreamChoice) -> Result<Self, SpdyError> {
        let (reader, writer) = tokio::io::split(runtime);
        let mut session =
            Self { reader: FrameReader::new(reader), writer: FrameWriter::new(writer), streams };
        let timed_out = |_| SpdyError::Connection(std::io::ErrorKind::TimedOut.into());
        tokio::time::timeout(OPEN_TIMEOUT, session.open_streams()).await.map_err(timed_out)??;
        Ok(session)
    }

    async fn open_streams(&mut self) -> Result<(), SpdyError> {
        let streams = [
            (ERROR, "error", true),
            (STDIN, "stdin", self.streams.stdin),
            (STDOUT, "stdout", self.streams.stdout),
            (STDERR, "stderr", self.streams.stderr),
            (RESIZE, "resize", self.streams.tty),
        ];
        let mut open = BTreeSet::new();
        for (stream, kind, _) in streams.into_iter().filter(|(_, _, is_open)| *is_open) {
            let headers = vec![("streamtype".to_owned(), kind.to_owned())];
            self.writer.send(&Frame::SynStream { stream, headers, fin: false }).await?;
            open.insert(stream);
        }
        // Data that is sent on a stream before its reply would be lost.
        while !open.is_empty() {
            match self.reader.next().await? {
                Some(Frame::SynReply { stream, .. }) => drop(open.remove(&stream)),
                Some(Frame::Ping(id)) if id % 2 == 0 => self.writer.send(&Frame::Ping(id)).await?,
                Some(Frame::Reset { .. } | Frame::GoAway { .. }) | None => {
                    return Err(SpdyError::Connection(std::io::ErrorKind::ConnectionReset.into()));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Translates until the process ends or the client disconnects.
    pub(super) async fn run(self, client: WebSocket) {
        let Self { reader, writer, streams } = self;
        let (mut sink, mut source) = client.split();
        let (pings, pinged) = mpsc::channel(4);
        let activity = Activity::new();
        {
            let upwards = to_runtime(&mut source, writer, pinged, &activity);
            let downwards = from_runtime(reader, &mut sink, pings, streams, &activity);
            tokio::pin!(upwards, downwards);
            tokio::select! {
                () = &mut downwards => {}
                // The process does not need the connection without its client.
                () = &mut upwards => {}
            }
        }
        close(sink, source).await;
    }
}

/// The time of the last data in either direction.
struct Activity {
    start: Instant,
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn record(&self) {
        self.last.store(self.start.elapsed().as_secs(), Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let last = Duration::from_secs(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) >= IDLE_TIMEOUT
    }
}

/// Forwards the client's messages to the runtime until the client disconnects or the session is idle for too long.
async fn to_runtime(
    source: &mut SplitStream<WebSocket>,
    mut writer: ToRuntime,
    mut pinged: mpsc::Receiver<u32>,
    activity: &Activity,
) {
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ping = 1;
    loop {
        let sent = tokio::select! {
            message = source.next() => match message {
                Some(Ok(message)) if message.is_binary() || message.is_text() => {
                    activity.record();
                    let payload = Bytes::from(message.into_payload());
                    match ChannelMessage::read(&payload) {
                        ChannelMessage::Bytes(Channel::Stdin, _) => send(&mut writer, STDIN, payload.slice(1..), false).await,
                        ChannelMessage::Bytes(Channel::Resize, _) => send(&mut writer, RESIZE, payload.slice(1..), false).await,
                        ChannelMessage::Close(Channel::Stdin) => send(&mut writer, STDIN, Bytes::new(), true).await,
                        ChannelMessage::Broken => return,
                        ChannelMessage::Bytes(..) | ChannelMessage::Close(_) | ChannelMessage::Nothing => Ok(()),
                    }
                }
                Some(Ok(_)) => Ok(()),
                Some(Err(_)) | None => return,
            },
            Some(id) = pinged.recv() => writer.send(&Frame::Ping(id)).await,
            _ = ticks.tick() => {
                if activity.is_idle() {
                    return;
                }
                ping += 2;
                writer.send(&Frame::Ping(ping)).await
            }
        };
        if sent.is_err() {
            // The process may have ended. The other direction detects that and delivers the rest of the output.
            while let Some(Ok(_)) = source.next().await {}
            return;
        }
    }
}

async fn send(writer: &mut ToRuntime, stream: StreamId, bytes: Bytes, fin: bool) -> Result<(), SpdyError> {
    if bytes.is_empty() && !fin {
        return Ok(());
    }
    writer.send(&Frame::Data { stream, bytes, fin }).await
}

/// Forwards the output and the exit status of the process to the client.
async fn from_runtime(
    mut reader: FromRuntime,
    sink: &mut SplitSink<WebSocket, Message>,
    pings: mpsc::Sender<u32>,
    streams: StreamChoice,
    activity: &Activity,
) {
    // An empty message shows the client that the connection is established.
    let first = match streams {
        StreamChoice { stdout: true, .. } => Channel::Stdout,
        StreamChoice { stderr: true, .. } => Channel::Stderr,
        _ => Channel::Status,
    };
    if send_to_client(sink, first, &[]).await.is_err() {
        return;
    }
    let mut output = Output::new(streams);
    while !output.open.is_empty() {
        let Ok(Some(frame)) = reader.next().await else { break };
        if let Frame::Ping(id) = frame {
            if id % 2 == 0 {
                // If the channel is full, the reply to an earlier ping is pending.
                let _ = pings.try_send(id);
            }
            continue;
        }
        // Replies to pings do not count as activity, or a session would never become idle.
        activity.record();
        if let Some((channel, bytes)) = output.process(frame)
            && send_to_client(sink, channel, &bytes).await.is_err()
        {
            return;
        }
    }
    let _ = send_to_client(sink, Channel::Status, &output.into_status()).await;
}

/// The output streams that are still open, and the status so far.
struct Output {
    open: BTreeSet<StreamId>,
    status: Vec<u8>,
}

impl Output {
    fn new(streams: StreamChoice) -> Self {
        let all = [(ERROR, true), (STDOUT, streams.stdout), (STDERR, streams.stderr)];
        let open = all.into_iter().filter(|(_, open)| *open).map(|(id, _)| id).collect();
        Self { open, status: Vec::new() }
    }

    /// Processes a frame; returns the bytes for the client.
    fn process(&mut self, frame: Frame) -> Option<(Channel, Bytes)> {
        match frame {
            Frame::Data { stream, bytes, fin } => {
                if fin {
                    self.open.remove(&stream);
                }
                match stream {
                    STDOUT if !bytes.is_empty() => Some((Channel::Stdout, bytes)),
                    STDERR if !bytes.is_empty() => Some((Channel::Stderr, bytes)),
                    ERROR => {
                        let room = MAX_STATUS.saturating_sub(self.status.len()).min(bytes.len());
                        self.status.extend_from_slice(bytes.get(..room).unwrap_or_default());
                        None
                    }
                    _ => None,
                }
            }
            Frame::Reset { stream, .. } => {
                self.open.remove(&stream);
                None
            }
            _ => None,
        }
    }

    /// The status that the runtime sent. An empty status means success, unless the connection was lost before its end.
    fn into_status(self) -> Vec<u8> {
        if !self.status.is_empty() {
            self.status
        } else if self.open.contains(&ERROR) {
            connection_lost()
        } else {
            json!({"metadata": {}, "status": "Success"}).to_string().into_bytes()
        }
    }
}

fn connection_lost() -> Vec<u8> {
    let message = "Internal error occurred: the connection to the container runtime was lost";
    json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": message})
        .to_string()
        .into_bytes()
}

async fn send_to_client(
    sink: &mut SplitSink<WebSocket, Message>,
    channel: Channel,
    bytes: &[u8],
) -> Result<(), tokio_websockets::Error> {
    sink.send(Message::binary(to_client(channel, bytes))).await
}
