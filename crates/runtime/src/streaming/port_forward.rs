//! Port-forward over SPDY/3.1: each forwarded connection is a pair of streams, one for data and one for errors.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use spdy::{Frame, FrameReader, FrameWriter, SpdyError, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::backend::StreamBackend;
use super::client::Activity;
use super::server::StreamTimeouts;
use super::spdy_connection::{Outgoing, ServerWriter, close, write_frames};
use super::stream_pairs::{CompletePair, StreamPairs};
use super::websocket::Connection;

pub(super) const PROTOCOLS: &[&str] = &["portforward.k8s.io"];
const REFUSED: u32 = 3;
const MAX_FORWARDS: usize = 1000;
/// Chunks of one connection that wait for the pod.
const INPUT_CHUNKS: usize = 32;
const CHUNK_BYTES: usize = 32 * 1024;
/// How long the other direction is served after the pod has closed the connection.
const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Input from the client for the pod. A stream that is reset closes the channel instead.
enum Input {
    Data(Bytes),
    End,
}

/// The pod to which the connections lead.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) backend: Arc<dyn StreamBackend>,
    pub(super) sandbox: String,
}

/// Serves a client until it leaves or until `gone`.
pub(super) async fn serve<C: Connection>(
    connection: C,
    target: Target,
    timeouts: StreamTimeouts,
    gone: CancellationToken,
) {
    let (reader, writer) = tokio::io::split(connection);
    let (mut reader, mut writer) = (FrameReader::new(reader), FrameWriter::new(writer));
    let activity = Activity::new(timeouts.idle);
    let (server_writer, outgoing) = Outgoing::channel(activity.clone());
    let mut forwards = Forwards {
        pairs: StreamPairs::new(timeouts.creation),
        inputs: HashMap::new(),
        receivers: HashMap::new(),
        tasks: JoinSet::new(),
        writer: server_writer,
        target,
    };
    tokio::select! {
        _ = forwards.read(&mut reader) => {}
        () = activity.idle() => {}
        () = write_frames(&mut writer, outgoing, &gone) => {}
    }
    forwards.tasks.shutdown().await;
    close(reader, writer, &gone).await;
}

/// The connections of one client.
struct Forwards {
    pairs: StreamPairs,
    /// By data stream.
    inputs: HashMap<StreamId, mpsc::Sender<Input>>,
    /// Of data streams whose error stream is not there yet.
    receivers: HashMap<StreamId, mpsc::Receiver<Input>>,
    tasks: JoinSet<StreamId>,
    writer: ServerWriter,
    target: Target,
}

impl Forwards {
    async fn read<C: Connection>(&mut self, reader: &mut FrameReader<ReadHalf<C>>) -> Result<(), SpdyError> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            let frame = tokio::select! {
                frame = reader.next() => frame?,
                Some(ended) = self.tasks.join_next() => {
                    if let Ok(data) = ended {
                        self.inputs.remove(&data);
                    }
                    continue;
                }
                _ = ticks.tick() => {
                    for stream in self.pairs.take_expired() {
                        self.reset(stream).await;
                    }
                    continue;
                }
            };
            let Some(frame) = frame else { return Ok(()) };
            self.process(frame).await;
        }
    }

    async fn process(&mut self, frame: Frame) {
        match frame {
            Frame::SynStream { stream, headers, .. } => {
                if self.tasks.len() + self.pairs.len() >= MAX_FORWARDS {
                    return self.refuse(stream).await;
                }
                let Ok((is_data, complete)) = self.pairs.add(stream, &headers) else {
                    return self.refuse(stream).await;
                };
                if is_data {
                    let (sender, receiver) = mpsc::channel(INPUT_CHUNKS);
                    self.inputs.insert(stream, sender);
                    self.receivers.insert(stream, receiver);
                }
                self.writer.send(Frame::SynReply { stream, headers: Vec::new(), fin: false }).await;
                if let Some(pair) = complete {
                    self.start(pair);
                }
            }
            Frame::Data { stream, bytes, fin } => {
                self.writer.record_activity();
                let Some(input) = self.inputs.get(&stream) else { return };
                // A connection that has ended takes nothing more.
                if !bytes.is_empty() {
                    let _ = input.send(Input::Data(bytes)).await;
                }
                if fin {
                    let _ = input.send(Input::End).await;
                }
            }
            Frame::Reset { stream, .. } => {
                self.inputs.remove(&stream);
                self.receivers.remove(&stream);
                self.pairs.remove(stream);
            }
            Frame::Ping(id) => self.writer.answer_ping(id),
            Frame::SynReply { .. } | Frame::GoAway { .. } | Frame::Headers { .. } | Frame::Ignored(_) => {}
        }
    }

    async fn refuse(&self, stream: StreamId) {
        self.writer.send(Frame::Reset { stream, status: REFUSED }).await;
    }

    async fn reset(&mut self, stream: StreamId) {
        self.inputs.remove(&stream);
        self.receivers.remove(&stream);
        self.refuse(stream).await;
    }

    fn start(&mut self, pair: CompletePair) {
        let Some(input) = self.receivers.remove(&pair.data) else { return };
        let (target, writer) = (self.target.clone(), self.writer.clone());
        self.tasks.spawn(async move {
            let data = pair.data;
            forward(&target, pair, input, &writer).await;
            data
        });
    }
}

/// Serves one connection.
async fn forward(target: &Target, pair: CompletePair, input: mpsc::Receiver<Input>, writer: &ServerWriter) {
    let CompletePair { error, data, port } = pair;
    match target.backend.port_forward(&target.sandbox, port).await {
        Ok(connection) => copy(connection, data, input, writer).await,
        Err(failure) => {
            let sandbox = &target.sandbox;
            let text = format!("error forwarding port {port} to pod {sandbox}, uid : {failure}");
            writer.send(Frame::Data { stream: error, bytes: Bytes::from(text), fin: false }).await;
            end(data, writer).await;
        }
    }
    end(error, writer).await;
}

async fn end(stream: StreamId, writer: &ServerWriter) {
    writer.send(Frame::Data { stream, bytes: Bytes::new(), fin: true }).await;
}

async fn copy(connection: TcpStream, data: StreamId, input: mpsc::Receiver<Input>, writer: &ServerWriter) {
    let (from_pod, to_pod) = connection.into_split();
    let input_ended = CancellationToken::new();
    let upwards = copy_to_pod(input, to_pod, &input_ended);
    let downwards = async {
        copy_from_pod(from_pod, data, writer).await;
        end(data, writer).await;
        // The client may still send what the pod reads after its last answer.
        let _ = timeout(HALF_CLOSE_TIMEOUT, input_ended.cancelled()).await;
    };
    tokio::select! {
        // A stream that was reset has no end.
        () = upwards => {}
        () = downwards => {}
    }
}

/// Copies until the client resets the stream. Its regular end leaves the other direction open.
async fn copy_to_pod(mut input: mpsc::Receiver<Input>, pod: OwnedWriteHalf, ended: &CancellationToken) {
    let mut pod = Some(pod);
    while let Some(next) = input.recv().await {
        match (next, &mut pod) {
            (Input::Data(bytes), Some(writer)) => {
                if writer.write_all(&bytes).await.is_err() {
                    // The pod may have sent an answer before it closed the connection.
                    pod = None;
                    ended.cancel();
                }
            }
            (Input::Data(_), None) => {}
            (Input::End, _) => {
                // Dropping it ends this direction.
                pod = None;
                ended.cancel();
            }
        }
    }
}

async fn copy_from_pod(mut pod: OwnedReadHalf, stream: StreamId, writer: &ServerWriter) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(CHUNK_BYTES);
        let Ok(1..) = pod.read_buf(&mut buffer).await else { return };
        writer.record_activity();
        writer.send(Frame::Data { stream, bytes: buffer.split().freeze(), fin: false }).await;
    }
}
