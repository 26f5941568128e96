//! Clients of the streaming server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use spdy::{Frame, FrameReader, FrameWriter, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_websockets::{ClientBuilder, Message, WebSocketStream};

const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.unwrap()
}

/// Address and path of a URL.
fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

/// Sends a request; returns the head of the answer and the connection.
pub(crate) async fn request(url: &str, headers: &str) -> (String, TcpStream) {
    let (address, path) = parts(url);
    let mut connection = TcpStream::connect(address).await.unwrap();
    let text = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    connection.write_all(text.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    within(async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
    })
    .await;
    (String::from_utf8(head).unwrap().to_lowercase(), connection)
}

pub(crate) type Io = Box<dyn ReadWrite>;

pub(crate) trait ReadWrite: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> ReadWrite for T {}

/// A SPDY client.
pub(crate) struct SpdyClient {
    reader: FrameReader<ReadHalf<Io>>,
    writer: FrameWriter<WriteHalf<Io>>,
    next: StreamId,
    received: BTreeMap<StreamId, Vec<u8>>,
    replied: BTreeSet<StreamId>,
    ended: BTreeSet<StreamId>,
    pub(crate) reset: BTreeSet<StreamId>,
}

impl SpdyClient {
    pub(crate) fn new(io: Io) -> Self {
        let (reader, writer) = tokio::io::split(io);
        Self {
            reader: FrameReader::new(reader),
            writer: FrameWriter::new(writer),
            next: 1,
            received: BTreeMap::new(),
            replied: BTreeSet::new(),
            ended: BTreeSet::new(),
            reset: BTreeSet::new(),
        }
    }

    pub(crate) async fn connect(url: &str, protocols: &str) -> Self {
        let headers =
            format!("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocols}\r\n");
        let (head, connection) = request(url, &headers).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        let chosen = protocols.split(", ").last().unwrap();
        assert!(head.contains(&format!("x-stream-protocol-version: {chosen}\r\n")), "{head}");
        Self::new(Box::new(connection))
    }

    /// Opens streams of a process, in this order.
    pub(crate) async fn open_all<const COUNT: usize>(&mut self, kinds: [&str; COUNT]) -> [StreamId; COUNT] {
        let mut ids = [0; COUNT];
        for (id, kind) in ids.iter_mut().zip(kinds) {
            *id = self.open(&[("streamtype", kind)]).await;
        }
        ids
    }

    /// Opens a stream and waits until the server accepts or resets it.
    pub(crate) async fn open(&mut self, headers: &[(&str, &str)]) -> StreamId {
        let stream = self.next;
        self.next += 2;
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.writer.send(&Frame::SynStream { stream, headers, fin: false }).await.unwrap();
        while !self.replied.contains(&stream) && !self.reset.contains(&stream) {
            assert!(self.receive().await, "the connection ended");
        }
        stream
    }

    pub(crate) async fn write(&mut self, stream: StreamId, bytes: &[u8], fin: bool) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.writer.send(&Frame::Data { stream, bytes, fin }).await.unwrap();
    }

    pub(crate) async fn ping(&mut self, id: u32) {
        self.writer.send(&Frame::Ping(id)).await.unwrap();
        while !self.replied.remove(&(id + (1 << 30))) {
            assert!(self.receive().await, "the connection ended");
        }
    }

    pub(crate) async fn read_until(&mut self, stream: StreamId, expected: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(self.received.entry(stream).or_default()).into_owned();
            if text.contains(expected) {
                return text;
            }
            assert!(self.receive().await, "the connection ended: {text}");
        }
    }

    /// Waits for an amount of data.
    pub(crate) async fn wait_for_bytes(&mut self, stream: StreamId, count: usize) {
        while self.received.entry(stream).or_default().len() < count {
            assert!(self.receive().await, "the connection ended");
        }
    }

    /// Everything that the stream carries until its end.
    pub(crate) async fn read_end(&mut self, stream: StreamId) -> String {
        while !self.ended.contains(&stream) {
            assert!(self.receive().await, "the connection ended before the stream");
        }
        String::from_utf8(self.received.remove(&stream).unwrap_or_default()).unwrap()
    }

    /// Returns when the server has closed the connection.
    pub(crate) async fn wait_until_closed(&mut self) {
        while self.receive().await {}
    }

    async fn receive(&mut self) -> bool {
        match within(self.reader.next()).await {
            Ok(Some(Frame::Data { stream, bytes, fin })) => {
                assert!(!self.ended.contains(&stream), "data after the end of stream {stream}");
                self.received.entry(stream).or_default().extend_from_slice(&bytes);
                if fin {
                    self.ended.insert(stream);
                }
            }
            Ok(Some(Frame::SynReply { stream, .. })) => {
                self.replied.insert(stream);
            }
            Ok(Some(Frame::Reset { stream, .. })) => {
                self.reset.insert(stream);
            }
            Ok(Some(Frame::Ping(id))) => {
                self.replied.insert(id + (1 << 30));
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
        true
    }
}

/// A WebSocket client.
pub(crate) struct WebSocketClient {
    pub(crate) socket: WebSocketStream<TcpStream>,
    received: BTreeMap<u8, Vec<u8>>,
    pub(crate) close_code: Option<u16>,
}

impl WebSocketClient {
    pub(crate) async fn connect(url: &str, protocol: &str) -> Self {
        let (address, _) = parts(url);
        let connection = TcpStream::connect(address).await.unwrap();
        let mut builder = ClientBuilder::new().uri(&url.replacen("http", "ws", 1)).unwrap();
        if !protocol.is_empty() {
            let name = http::header::SEC_WEBSOCKET_PROTOCOL;
            builder = builder.add_header(name, protocol.parse().unwrap()).unwrap();
        }
        let (socket, answer) = within(builder.connect_on(connection)).await.unwrap();
        let chosen = answer.headers().get("sec-websocket-protocol").map(|value| value.to_str().unwrap());
        assert_eq!(chosen.unwrap_or_default(), protocol);
        Self { socket, received: BTreeMap::new(), close_code: None }
    }

    pub(crate) async fn write(&mut self, channel: u8, bytes: &[u8]) {
        let message = [&[channel], bytes].concat();
        self.socket.send(Message::binary(message)).await.unwrap();
    }

    pub(crate) async fn read_until(&mut self, channel: u8, expected: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(self.received.entry(channel).or_default()).into_owned();
            if text.contains(expected) {
                return text;
            }
            assert!(self.receive().await, "the connection ended: {text}");
        }
    }

    /// Everything that the channels carry until the server closes the connection.
    pub(crate) async fn read_end(&mut self) -> BTreeMap<u8, String> {
        while self.receive().await {}
        let all = std::mem::take(&mut self.received);
        all.into_iter().map(|(channel, bytes)| (channel, String::from_utf8(bytes).unwrap())).collect()
    }

    async fn receive(&mut self) -> bool {
        let Some(Ok(message)) = within(self.socket.next()).await else { return false };
        if let Some((code, _)) = message.as_close() {
            self.close_code = Some(code.into());
        } else if message.is_binary() || message.is_text() {
            let payload = Bytes::from(message.into_payload());
            self.received.entry(payload[0]).or_default().extend_from_slice(&payload[1..]);
        }
        true
    }
}
