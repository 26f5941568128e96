//! A fake of the streaming server of a runtime.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use spdy::{Frame, FrameReader, FrameWriter, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};

pub(super) struct SpdyServer {
    address: SocketAddr,
    accepted: Mutex<mpsc::Receiver<(String, TcpStream)>>,
}

impl SpdyServer {
    /// Accepts every upgrade, with this protocol.
    pub(super) async fn start(protocol: &str) -> Self {
        let accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
        Self::with_response(&format!("{accepted}X-Stream-Protocol-Version: {protocol}\r\n\r\n")).await
    }

    /// Sends this response to every request.
    pub(super) async fn with_response(response: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = mpsc::channel(8);
        let response = response.to_owned();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(response.as_bytes()).await.unwrap();
                let _ = sender.send((String::from_utf8(head).unwrap(), stream)).await;
            }
        });
        Self { address, accepted: Mutex::new(accepted) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// The head of the next request.
    pub(super) async fn head(&self) -> String {
        self.accepted.lock().await.recv().await.unwrap().0
    }

    /// The next connection.
    pub(super) async fn accept_raw(&self) -> TcpStream {
        self.accepted.lock().await.recv().await.unwrap().1
    }

    /// The next connection, with the streams of its process accepted.
    pub(super) async fn accept(&self) -> Process {
        let (reader, writer) = tokio::io::split(self.accept_raw().await);
        let (mut reader, mut writer) = (FrameReader::new(reader), FrameWriter::new(writer));
        let mut streams = Vec::new();
        let mut is_complete = false;
        // The agent opens all streams before it sends anything else.
        while !is_complete {
            let frame = tokio::time::timeout(std::time::Duration::from_millis(200), reader.next()).await;
            match frame {
                Ok(Ok(Some(Frame::SynStream { stream, headers, .. }))) => {
                    let kind = headers.into_iter().find(|(name, _)| name == "streamtype").unwrap().1;
                    streams.push((kind, stream));
                }
                Ok(other) => panic!("{other:?}"),
                Err(_) => is_complete = !streams.is_empty(),
            }
        }
        for (_, stream) in &streams {
            writer.send(&Frame::SynReply { stream: *stream, headers: Vec::new(), fin: false }).await.unwrap();
        }
        Process { reader, writer, streams, arrived: BTreeMap::new() }
    }
}

pub(super) struct Process {
    reader: FrameReader<ReadHalf<TcpStream>>,
    writer: FrameWriter<WriteHalf<TcpStream>>,
    streams: Vec<(String, StreamId)>,
    arrived: BTreeMap<StreamId, (Vec<u8>, bool)>,
}

impl Process {
    pub(super) fn streams(&self) -> Vec<&str> {
        self.streams.iter().map(|(kind, _)| kind.as_str()).collect()
    }

    fn id(&self, kind: &str) -> StreamId {
        self.streams.iter().find(|(name, _)| name == kind).unwrap().1
    }

    pub(super) async fn write(&mut self, kind: &str, bytes: &[u8], fin: bool) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.writer.send(&Frame::Data { stream: self.id(kind), bytes, fin }).await.unwrap();
    }

    pub(super) async fn read(&mut self, kind: &str, count: usize) -> Vec<u8> {
        let id = self.id(kind);
        while self.arrived.entry(id).or_default().0.len() < count {
            assert!(self.take().await, "the connection ended");
        }
        self.arrived.entry(id).or_default().0.drain(..count).collect()
    }

    pub(super) async fn read_end(&mut self, kind: &str) {
        let id = self.id(kind);
        while !self.arrived.entry(id).or_default().1 {
            assert!(self.take().await, "the connection ended");
        }
    }

    /// Returns when the agent has closed the connection.
    pub(super) async fn wait_until_closed(&mut self) {
        while self.take().await {}
    }

    async fn take(&mut self) -> bool {
        match self.reader.next().await {
            Ok(Some(Frame::Data { stream, bytes, fin })) => {
                let (all, ended) = self.arrived.entry(stream).or_default();
                all.extend_from_slice(&bytes);
                *ended |= fin;
                true
            }
            Ok(Some(Frame::Ping(id))) => self.writer.send(&Frame::Ping(id)).await.is_ok(),
            Ok(Some(_)) => true,
            Ok(None) | Err(_) => false,
        }
    }
}
