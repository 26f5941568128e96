//! An asynchronous connection to a bus. All futures are cancel-safe: dropping one loses no bytes that were read or
//! queued to be written.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::{Call, Kind, MAX_BYTES, Message, auth_line, remaining_bytes};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const CHUNK: usize = 4096;
/// Limit of queued signals, and of file descriptors received before their message.
const MAX_QUEUED: usize = 64;

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) descriptors: Vec<OwnedFd>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    signals: VecDeque<Message>,
    serial: u32,
}

impl Connection {
    /// Connects and authenticates.
    pub(crate) async fn open(socket: &Path) -> io::Result<Self> {
        with_timeout(async {
            let mut connection = Self {
                stream: UnixStream::connect(socket).await?,
                outgoing: Vec::new(),
                incoming: Vec::new(),
                descriptors: VecDeque::new(),
                signals: VecDeque::new(),
                serial: 0,
            };
            connection.authenticate_step(&auth_line(), "OK ").await?;
            connection.authenticate_step("NEGOTIATE_UNIX_FD\r\n", "AGREE_UNIX_FD").await?;
            connection.outgoing.extend_from_slice(b"BEGIN\r\n");
            Ok(connection)
        })
        .await
    }

    /// Calls a method and waits for its reply.
    pub(crate) async fn call(&mut self, call: &Call<'_>) -> io::Result<Received> {
        with_timeout(self.exchange(call)).await
    }

    /// Waits for the next signal, without a timeout.
    pub(crate) async fn next_signal(&mut self) -> io::Result<Message> {
        loop {
            if let Some(signal) = self.signals.pop_front() {
                return Ok(signal);
            }
            let received = self.receive().await?;
            self.queue_signal(received.message)?;
        }
    }

    async fn exchange(&mut self, call: &Call<'_>) -> io::Result<Received> {
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        self.outgoing.extend_from_slice(&call.message(serial));
        self.flush().await?;
        loop {
            let received = self.receive().await?;
            match (received.message.kind, received.message.reply_serial) {
                (Kind::Return, Some(replied)) if replied == serial => return Ok(received),
                (Kind::Error, Some(replied)) if replied == serial => {
                    return Err(io::Error::other(received.message.failure()));
                }
                // Includes replies to calls whose callers stopped waiting.
                (Kind::Return | Kind::Error | Kind::Signal | Kind::Call | Kind::Unknown, _) => {
                    self.queue_signal(received.message)?;
                }
            }
        }
    }

    fn queue_signal(&mut self, message: Message) -> io::Result<()> {
        if message.kind != Kind::Signal {
            return Ok(());
        }
        if self.signals.len() >= MAX_QUEUED {
            return Err(invalid("too many queued signals"));
        }
        self.signals.push_back(message);
        Ok(())
    }

    /// Sends one line of the authentication; `expected` is the start of the response.
    async fn authenticate_step(&mut self, line: &str, expected: &str) -> io::Result<()> {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.flush().await?;
        loop {
            if let Some(end) = self.incoming.windows(2).position(|two| two == b"\r\n") {
                let response: Vec<u8> = self.incoming.drain(..end + 2).collect();
                if response.starts_with(expected.as_bytes()) {
                    return Ok(());
                }
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "the bus refused the authentication",
                ));
            }
            if self.incoming.len() > CHUNK {
                return Err(invalid("not a D-Bus socket"));
            }
            self.read_some().await?;
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<Received> {
        loop {
            if let Some(received) = self.take_message()? {
                return Ok(received);
            }
            self.read_some().await?;
        }
    }

    /// Removes the first message from the bytes that were read, if it is complete.
    fn take_message(&mut self) -> io::Result<Option<Received>> {
        let Some(start) = self.incoming.get(..16) else { return Ok(None) };
        let rest = remaining_bytes(start).filter(|rest| *rest <= MAX_BYTES);
        let length = 16 + rest.ok_or_else(|| invalid("invalid or oversized message"))?;
        if self.incoming.len() < length {
            return Ok(None);
        }
        let bytes: Vec<u8> = self.incoming.drain(..length).collect();
        let message = Message::read(&bytes).ok_or_else(|| invalid("malformed message"))?;
        if message.descriptors > self.descriptors.len() {
            return Err(invalid("message without its file descriptors"));
        }
        let descriptors = self.descriptors.drain(..message.descriptors).collect();
        Ok(Some(Received { message, descriptors }))
    }

    async fn read_some(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        loop {
            self.stream.readable().await?;
            let (stream, descriptors) = (&self.stream, &mut self.descriptors);
            match stream.try_io(Interest::READABLE, || receive(stream, &mut chunk, descriptors)) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the bus closed the connection",
                    ));
                }
                Ok(read) => {
                    if self.descriptors.len() > MAX_QUEUED {
                        return Err(invalid("too many queued file descriptors"));
                    }
                    self.incoming.extend_from_slice(chunk.get(..read).unwrap_or_default());
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn receive(stream: &UnixStream, chunk: &mut [u8], descriptors: &mut VecDeque<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut chunks = [IoSliceMut::new(chunk)];
    let received =
        rustix::net::recvmsg(stream.as_fd(), &mut chunks, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(received.bytes)
}

async fn with_timeout<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(CALL_TIMEOUT, work).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no reply in {CALL_TIMEOUT:?}"))),
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
