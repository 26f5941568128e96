//! Messages between the launcher and the process that it sets up, over a socket pair that keeps message borders.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::sockopt::set_socket_timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::errors::{During, LaunchError};

/// Error texts are short; a longer message is cut off by the kernel and refused.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// How long the set-up of a process may take. A hanging network file system would block the pod's keeper otherwise.
const SET_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// What the new process reports.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The process that continues with the set-up; its pidfd comes with the message. The sender ends.
    Process,
    /// The master side of the process's terminal comes with the message.
    Terminal,
    /// Everything is set up; the process waits for [`Order::Execute`].
    Ready,
    Failed(String),
}

/// What the launcher orders.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The process is in its cgroups and may set itself up.
    SetUp,
    Execute,
}

/// One end of the socket pair; both ends are closed by `execve`.
pub(super) struct Channel(OwnedFd);

impl Channel {
    pub(super) fn pair() -> Result<(Self, Self), LaunchError> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .during("make", "socket pair")?;
        set_socket_timeout(&ours, Timeout::Recv, Some(SET_UP_TIMEOUT)).during("set timeout of", "socket")?;
        Ok((Self(ours), Self(theirs)))
    }

    pub(super) fn send(&self, message: &impl Serialize) -> Result<(), LaunchError> {
        self.send_with(message, &[])
    }

    /// Sends a message with descriptors.
    pub(super) fn send_with(
        &self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), LaunchError> {
        let mut text =
            serde_json::to_vec(message).map_err(|error| LaunchError::Message(error.to_string()))?;
        text.truncate(MAX_MESSAGE_BYTES);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::MSGSIZE).during("send", "descriptors");
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)
            .map(drop)
            .during("send", "message")
    }

    /// The next message; none if the other end is closed.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> Result<Option<T>, LaunchError> {
        Ok(self.receive_with()?.map(|(message, _)| message))
    }

    /// The next message and the descriptor that came with it; none if the other end is closed.
    pub(super) fn receive_with<T: DeserializeOwned>(
        &self,
    ) -> Result<Option<(T, Option<OwnedFd>)>, LaunchError> {
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut slices = [IoSliceMut::new(&mut buffer)];
            match recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                result => break result.during("receive", "message")?.bytes,
            }
        };
        let descriptor = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match buffer.get(..received) {
            None | Some([]) => Ok(None),
            Some(text) => serde_json::from_slice(text)
                .map(|message| Some((message, descriptor)))
                .map_err(|error| LaunchError::Message(error.to_string())),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
