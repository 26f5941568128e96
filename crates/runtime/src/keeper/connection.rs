//! A connection of the runtime to the keeper.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg, sockopt,
};

use super::protocol::{FrameBuffer, Message, ProtocolError, Request, encode};

const READ_BYTES: usize = 16 * 1024;
/// A runtime that does not read this much is closed, and can connect again.
const MAX_UNSENT_BYTES: usize = 8 << 20;
/// Descriptors of three requests; more are never under way.
const MAX_DESCRIPTORS: usize = 9;

pub(super) struct Connection {
    socket: OwnedFd,
    received: FrameBuffer,
    descriptors: VecDeque<OwnedFd>,
    unsent: Vec<u8>,
    /// Whether the versions were compared.
    pub(super) greeted: bool,
}

/// The connection is of no use any more.
pub(super) struct Closed;

impl Connection {
    /// Accepts the connection if its other end runs as the same user.
    pub(super) fn new(socket: OwnedFd) -> Option<Self> {
        let peer = sockopt::socket_peercred(&socket).ok()?;
        let same_user = peer.uid == rustix::process::geteuid();
        same_user.then(|| Self {
            socket,
            received: FrameBuffer::default(),
            descriptors: VecDeque::new(),
            unsent: Vec::new(),
            greeted: false,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the descriptors that came with a request.
    pub(super) fn take_descriptors(&mut self, count: usize) -> Vec<OwnedFd> {
        let count = count.min(self.descriptors.len());
        self.descriptors.drain(..count).collect()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what has arrived.
    pub(super) fn read(&mut self) -> Result<(), Closed> {
        let mut bytes = [0; READ_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let length = match recvmsg(&self.socket, &mut slices, &mut ancillary, flags) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(Closed),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        match bytes.get(..length) {
            None | Some([]) => Err(Closed),
            Some(_) if self.descriptors.len() > MAX_DESCRIPTORS => Err(Closed),
            Some(read) => {
                self.received.extend(read);
                Ok(())
            }
        }
    }

    pub(super) fn next_request(&mut self) -> Result<Option<Request>, ProtocolError> {
        self.received.next_message()
    }

    /// Queues a message and sends what the socket takes.
    pub(super) fn send(&mut self, message: &Message) -> Result<(), Closed> {
        let bytes = encode(message).map_err(|_| Closed)?;
        self.unsent.extend_from_slice(&bytes);
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Result<(), Closed> {
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.unsent.len() <= MAX_UNSENT_BYTES => return Ok(()),
                Err(_) => return Err(Closed),
            }
        }
        self.unsent = Vec::new();
        Ok(())
    }
}

/// Sends a descriptor with one byte.
pub(super) fn send_descriptor(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, flags).map(drop)
}
