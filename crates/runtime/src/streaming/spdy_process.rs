//! Processes over SPDY/3.1: the client opens a stream for each channel.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use spdy::{Frame, FrameReader, FrameWriter, Headers, SpdyError, StreamId};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::backend::StreamOptions;
use super::client::{Activity, Client, ClientInput, Input, Output, client};
use super::resize::Resizes;
use super::server::StreamTimeouts;
use super::spdy_connection::{Outgoing, ServerWriter, close, write_frames};
use super::websocket::Connection;

/// In the order of the server's preference.
pub(super) const PROTOCOLS: &[&str] =
    &["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];
/// Data that may arrive before all streams are there.
const MAX_EARLY_FRAMES: usize = 64;
const REFUSED: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    Error,
    Stdin,
    Stdout,
    Stderr,
    Resize,
}

impl Channel {
    fn of(headers: &Headers) -> Option<Self> {
        let kind = headers.iter().find(|(name, _)| name == "streamtype").map(|(_, value)| value.as_str());
        match kind? {
            "error" => Some(Self::Error),
            "stdin" => Some(Self::Stdin),
            "stdout" => Some(Self::Stdout),
            "stderr" => Some(Self::Stderr),
            "resize" => Some(Self::Resize),
            _ => None,
        }
    }
}

/// The streams that a client opens for these options.
fn expected(options: StreamOptions, protocol: &str) -> Vec<Channel> {
    let has_resize = protocol.starts_with("v4.") || protocol.starts_with("v3.");
    [
        (Channel::Error, true),
        (Channel::Stdin, options.stdin),
        (Channel::Stdout, options.stdout),
        (Channel::Stderr, options.stderr && !options.tty),
        (Channel::Resize, options.tty && has_resize),
    ]
    .into_iter()
    .filter(|(_, chosen)| *chosen)
    .map(|(channel, _)| channel)
    .collect()
}

/// The streams of one process.
struct Streams {
    by_id: BTreeMap<StreamId, Channel>,
    /// Frames that arrived before all streams were open.
    early: Vec<Frame>,
}

type Reader<C> = FrameReader<ReadHalf<C>>;
type Writer<C> = FrameWriter<WriteHalf<C>>;

/// Serves one process until it ends or until `gone`.
pub(super) async fn serve_process<C, F>(
    connection: C,
    protocol: &'static str,
    options: StreamOptions,
    (timeouts, gone): (StreamTimeouts, CancellationToken),
    session: impl FnOnce(Client) -> F,
) where
    C: Connection,
    F: Future<Output = ()>,
{
    let (reader, writer) = tokio::io::split(connection);
    let (mut reader, mut writer) = (FrameReader::new(reader), FrameWriter::new(writer));
    let opened = tokio::select! {
        () = gone.cancelled() => return,
        opened = timeout(timeouts.creation, accept_streams(&mut reader, &mut writer, expected(options, protocol))) => opened,
    };
    // The connection ends with an error or without all streams.
    let Ok(Ok(mut streams)) = opened else { return };
    let activity = Activity::new(timeouts.idle);
    let (client, input, output) = client(gone.clone());
    let (server_writer, outgoing) = Outgoing::channel(activity.clone());
    let early = std::mem::take(&mut streams.early);
    let reading = async {
        tokio::select! {
            _ = read(&mut reader, &streams, early, &input, &server_writer) => {}
            () = activity.idle() => {}
        }
        gone.cancel();
        std::future::pending::<()>().await;
    };
    let encoding = encode(&streams, protocol, output, server_writer.clone());
    let writing = write_frames(&mut writer, outgoing, &gone);
    let conversation = async {
        let served = async {
            tokio::join!(session(client), encoding);
            server_writer.finish().await;
        };
        tokio::join!(served, writing);
    };
    tokio::select! {
        () = reading => {}
        () = conversation => {}
    }
    close(reader, writer, &gone).await;
}

/// Waits until the client has opened all streams.
async fn accept_streams<C: Connection>(
    reader: &mut Reader<C>,
    writer: &mut Writer<C>,
    mut missing: Vec<Channel>,
) -> Result<Streams, SpdyError> {
    let mut streams = Streams { by_id: BTreeMap::new(), early: Vec::new() };
    while !missing.is_empty() {
        let Some(frame) = reader.next().await? else {
            return Err(SpdyError::Connection(std::io::ErrorKind::UnexpectedEof.into()));
        };
        match frame {
            Frame::SynStream { stream, headers, .. } => {
                let position = Channel::of(&headers)
                    .and_then(|channel| missing.iter().position(|next| *next == channel));
                let Some(position) = position else {
                    writer.send(&Frame::Reset { stream, status: REFUSED }).await?;
                    return Err(SpdyError::Connection(std::io::ErrorKind::InvalidData.into()));
                };
                streams.by_id.insert(stream, missing.remove(position));
                writer.send(&Frame::SynReply { stream, headers: Vec::new(), fin: false }).await?;
            }
            Frame::Ping(id) if id % 2 == 1 => writer.send(&Frame::Ping(id)).await?,
            frame @ Frame::Data { .. } if streams.early.len() < MAX_EARLY_FRAMES => streams.early.push(frame),
            Frame::Data { .. } => {
                return Err(SpdyError::Connection(std::io::ErrorKind::InvalidData.into()));
            }
            _ => {}
        }
    }
    Ok(streams)
}

/// Passes on what the client sends until the connection ends.
async fn read<C: Connection>(
    reader: &mut Reader<C>,
    streams: &Streams,
    early: Vec<Frame>,
    client: &ClientInput,
    writer: &ServerWriter,
) -> Result<(), SpdyError> {
    let mut resizes = Resizes::default();
    let mut early = early.into_iter();
    loop {
        let frame = match early.next() {
            Some(frame) => frame,
            None => match reader.next().await? {
                Some(frame) => frame,
                None => return Ok(()),
            },
        };
        match frame {
            Frame::Data { stream, bytes, fin } => {
                writer.record_activity();
                match streams.by_id.get(&stream) {
                    Some(Channel::Stdin) => send_input(client, bytes, fin).await,
                    Some(Channel::Resize) => {
                        if let Some(size) = resizes.push(&bytes) {
                            client.size.send_replace(Some(size));
                        }
                    }
                    Some(Channel::Error | Channel::Stdout | Channel::Stderr) | None => {}
                }
            }
            Frame::Reset { stream, .. } if streams.by_id.get(&stream) == Some(&Channel::Stdin) => {
                send_input(client, Bytes::new(), true).await;
            }
            Frame::SynStream { stream, .. } => writer.send(Frame::Reset { stream, status: REFUSED }).await,
            Frame::Ping(id) => writer.answer_ping(id),
            _ => {}
        }
    }
}

async fn send_input(client: &ClientInput, bytes: Bytes, fin: bool) {
    // A session that has ended takes nothing more.
    if !bytes.is_empty() {
        let _ = client.input.send(Input::Data(bytes)).await;
    }
    if fin {
        let _ = client.input.send(Input::End).await;
    }
}

/// Turns output into frames of the streams, and ends all streams.
async fn encode(streams: &Streams, protocol: &str, mut output: mpsc::Receiver<Output>, writer: ServerWriter) {
    let mut open = streams.by_id.clone();
    while let Some(next) = output.recv().await {
        let (channel, bytes, fin) = match next {
            Output::Stdout(bytes) => (Channel::Stdout, bytes, false),
            Output::Stderr(bytes) => (Channel::Stderr, bytes, false),
            Output::StdoutEnd => (Channel::Stdout, Bytes::new(), true),
            Output::StderrEnd => (Channel::Stderr, Bytes::new(), true),
            Output::Status(outcome) => {
                // Clients read the status after the end of the output, which a process that did not start does not have.
                end_streams(&mut open, &[Channel::Stdout, Channel::Stderr], &writer).await;
                let status = if protocol.starts_with("v4.") {
                    outcome.to_json()
                } else {
                    outcome.to_text().unwrap_or_default().into_bytes()
                };
                (Channel::Error, Bytes::from(status), true)
            }
        };
        let Some(stream) = id_of(&open, channel) else { continue };
        if fin {
            open.remove(&stream);
        }
        writer.record_activity();
        writer.send(Frame::Data { stream, bytes, fin }).await;
    }
    let rest = [Channel::Stdout, Channel::Stderr, Channel::Error, Channel::Stdin, Channel::Resize];
    end_streams(&mut open, &rest, &writer).await;
}

async fn end_streams(open: &mut BTreeMap<StreamId, Channel>, channels: &[Channel], writer: &ServerWriter) {
    for channel in channels {
        if let Some(stream) = id_of(open, *channel) {
            open.remove(&stream);
            writer.send(Frame::Data { stream, bytes: Bytes::new(), fin: true }).await;
        }
    }
}

fn id_of(streams: &BTreeMap<StreamId, Channel>, channel: Channel) -> Option<StreamId> {
    streams.iter().find(|(_, known)| **known == channel).map(|(id, _)| *id)
}
