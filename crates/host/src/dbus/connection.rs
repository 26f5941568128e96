//! A conversation over a bus. Waiting for a message can be given up at any point: nothing that was read or promised to be
//! written is lost.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::{Call, Kind, MOST_BYTES, Message, greeting, rest_of};

/// The longest wait for an answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes read at once.
const CHUNK: usize = 4096;
/// Signals that may wait to be read while an answer is waited for, and file descriptors that may wait for their message.
const MOST_WAITING: usize = 64;

/// A message and the file descriptors that came with it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// A connection to a bus, under a name of our own.
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
    /// Connects and says hello.
    pub(crate) async fn open(socket: &Path) -> io::Result<Self> {
        within(async {
            let mut connection = Self {
                stream: UnixStream::connect(socket).await?,
                outgoing: Vec::new(),
                incoming: Vec::new(),
                descriptors: VecDeque::new(),
                signals: VecDeque::new(),
                serial: 0,
            };
            connection.say(&greeting(), "OK ").await?;
            connection.say("NEGOTIATE_UNIX_FD\r\n", "AGREE_UNIX_FD").await?;
            connection.outgoing.extend_from_slice(b"BEGIN\r\n");
            Ok(connection)
        })
        .await
    }

    /// Calls a method and waits for its answer.
    pub(crate) async fn call(&mut self, call: &Call<'_>) -> io::Result<Received> {
        within(self.exchange(call)).await
    }

    /// Waits for the next signal, for as long as it takes.
    pub(crate) async fn signal(&mut self) -> io::Result<Message> {
        loop {
            if let Some(signal) = self.signals.pop_front() {
                return Ok(signal);
            }
            let received = self.receive().await?;
            self.keep_signal(received.message)?;
        }
    }

    async fn exchange(&mut self, call: &Call<'_>) -> io::Result<Received> {
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        self.outgoing.extend_from_slice(&call.message(serial));
        self.flush().await?;
        loop {
            let received = self.receive().await?;
            match (received.message.kind, received.message.answers) {
                (Kind::Return, Some(answered)) if answered == serial => return Ok(received),
                (Kind::Error, Some(answered)) if answered == serial => {
                    return Err(io::Error::other(received.message.failure()));
                }
                // Also answers to calls whose callers gave up waiting.
                (Kind::Return | Kind::Error | Kind::Signal | Kind::Call | Kind::Unknown, _) => {
                    self.keep_signal(received.message)?;
                }
            }
        }
    }

    fn keep_signal(&mut self, message: Message) -> io::Result<()> {
        if message.kind != Kind::Signal {
            return Ok(());
        }
        if self.signals.len() >= MOST_WAITING {
            return Err(invalid("too many signals at once"));
        }
        self.signals.push_back(message);
        Ok(())
    }

    /// One line of the greeting, and what must begin its answer.
    async fn say(&mut self, line: &str, expected: &str) -> io::Result<()> {
        self.outgoing.extend_from_slice(line.as_bytes());
        self.flush().await?;
        loop {
            if let Some(end) = self.incoming.windows(2).position(|two| two == b"\r\n") {
                let answer: Vec<u8> = self.incoming.drain(..end + 2).collect();
                if answer.starts_with(expected.as_bytes()) {
                    return Ok(());
                }
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the bus does not let us in"));
            }
            if self.incoming.len() > CHUNK {
                return Err(invalid("this is no bus"));
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
            if let Some(received) = self.take()? {
                return Ok(received);
            }
            self.read_some().await?;
        }
    }

    /// The first message of what was read, if it is whole.
    fn take(&mut self) -> io::Result<Option<Received>> {
        let Some(start) = self.incoming.get(..16) else { return Ok(None) };
        let rest = rest_of(start).filter(|rest| *rest <= MOST_BYTES);
        let length = 16 + rest.ok_or_else(|| invalid("a message is too long, or none"))?;
        if self.incoming.len() < length {
            return Ok(None);
        }
        let bytes: Vec<u8> = self.incoming.drain(..length).collect();
        let message = Message::read(&bytes).ok_or_else(|| invalid("a message makes no sense"))?;
        if message.descriptors > self.descriptors.len() {
            return Err(invalid("a message lacks its file descriptors"));
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
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the bus has hung up"));
                }
                Ok(read) => {
                    if self.descriptors.len() > MOST_WAITING {
                        return Err(invalid("too many file descriptors at once"));
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

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {DEADLINE:?}"))),
    }
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
