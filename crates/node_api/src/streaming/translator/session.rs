//! One process with its streams.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use decide::streaming::{Channel, ChannelMessage, to_client};
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
use crate::streaming::tunnel::finish;

/// How long the runtime may take to accept the streams.
const OPENING: Duration = Duration::from_secs(30);
/// How often the runtime is asked for a sign of life.
const PING: Duration = Duration::from_secs(5);
/// A session on which nothing was said for this long ends.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// The longest status of a process that is passed on.
const LONGEST_STATUS: usize = 64 * 1024;

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
    /// Opens the streams; the process starts when the runtime has them all.
    pub(super) async fn open(runtime: Connection, streams: StreamChoice) -> Result<Self, SpdyError> {
        let (reader, writer) = tokio::io::split(runtime);
        let mut session =
            Self { reader: FrameReader::new(reader), writer: FrameWriter::new(writer), streams };
        let late = |_| SpdyError::Connection(std::io::ErrorKind::TimedOut.into());
        tokio::time::timeout(OPENING, session.open_streams()).await.map_err(late)??;
        Ok(session)
    }

    async fn open_streams(&mut self) -> Result<(), SpdyError> {
        let wanted = [
            (ERROR, "error", true),
            (STDIN, "stdin", self.streams.stdin),
            (STDOUT, "stdout", self.streams.stdout),
            (STDERR, "stderr", self.streams.stderr),
            (RESIZE, "resize", self.streams.tty),
        ];
        let mut open = BTreeSet::new();
        for (stream, kind, _) in wanted.into_iter().filter(|(_, _, wanted)| *wanted) {
            let headers = vec![("streamtype".to_owned(), kind.to_owned())];
            self.writer.send(&Frame::SynStream { stream, headers, fin: false }).await?;
            open.insert(stream);
        }
        // What is sent on a stream before its reply is lost.
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

    /// Translates until the process or the client is gone.
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
                // Without its client the process has no use for the connection.
                () = &mut upwards => {}
            }
        }
        finish(sink, source).await;
    }
}

/// When something was last said.
struct Activity {
    start: Instant,
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self { start: Instant::now(), last: AtomicU64::new(0) }
    }

    fn note(&self) {
        self.last.store(self.start.elapsed().as_secs(), Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        let last = Duration::from_secs(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) >= IDLE
    }
}

/// Takes the client's messages to the runtime until the client is gone or has nothing to say for long.
async fn to_runtime(
    source: &mut SplitStream<WebSocket>,
    mut writer: ToRuntime,
    mut pinged: mpsc::Receiver<u32>,
    activity: &Activity,
) {
    let mut ticks = tokio::time::interval(PING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ping = 1;
    loop {
        let sent = tokio::select! {
            message = source.next() => match message {
                Some(Ok(message)) if message.is_binary() || message.is_text() => {
                    activity.note();
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
            // The process may have ended: the other direction knows, and has more to say.
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

/// Takes what the process says, and how it ended, to the client.
async fn from_runtime(
    mut reader: FromRuntime,
    sink: &mut SplitSink<WebSocket, Message>,
    pings: mpsc::Sender<u32>,
    streams: StreamChoice,
    activity: &Activity,
) {
    // Tells the client that the connection stands.
    let first = match streams {
        StreamChoice { stdout: true, .. } => Channel::Stdout,
        StreamChoice { stderr: true, .. } => Channel::Stderr,
        _ => Channel::Status,
    };
    if show(sink, first, &[]).await.is_err() {
        return;
    }
    let mut output = Output::new(streams);
    while !output.open.is_empty() {
        let Ok(Some(frame)) = reader.next().await else { break };
        if let Frame::Ping(id) = frame {
            if id % 2 == 0 {
                // When it is full, the answer to an earlier one is on its way.
                let _ = pings.try_send(id);
            }
            continue;
        }
        // Only now: answers to our own pings would keep a session for ever.
        activity.note();
        if let Some((channel, bytes)) = output.take(frame)
            && show(sink, channel, &bytes).await.is_err()
        {
            return;
        }
    }
    let _ = show(sink, Channel::Status, &output.into_status()).await;
}

/// What is still to come of a process.
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

    /// Takes a frame; bytes that the client is to see.
    fn take(&mut self, frame: Frame) -> Option<(Channel, Bytes)> {
        match frame {
            Frame::Data { stream, bytes, fin } => {
                if fin {
                    self.open.remove(&stream);
                }
                match stream {
                    STDOUT if !bytes.is_empty() => Some((Channel::Stdout, bytes)),
                    STDERR if !bytes.is_empty() => Some((Channel::Stderr, bytes)),
                    ERROR => {
                        let room = LONGEST_STATUS.saturating_sub(self.status.len()).min(bytes.len());
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

    /// How the process ended: what the runtime said; nothing means well; a connection that broke off before means ill.
    fn into_status(self) -> Vec<u8> {
        if !self.status.is_empty() {
            self.status
        } else if self.open.contains(&ERROR) {
            lost()
        } else {
            json!({"metadata": {}, "status": "Success"}).to_string().into_bytes()
        }
    }
}

fn lost() -> Vec<u8> {
    let message = "Internal error occurred: the connection to the container runtime was lost";
    json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": message})
        .to_string()
        .into_bytes()
}

async fn show(
    sink: &mut SplitSink<WebSocket, Message>,
    channel: Channel,
    bytes: &[u8],
) -> Result<(), tokio_websockets::Error> {
    sink.send(Message::binary(to_client(channel, bytes))).await
}
