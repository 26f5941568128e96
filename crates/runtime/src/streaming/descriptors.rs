//! Descriptors that a keeper receives, and the ends of them that stay here.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::backend::{ProcessStreams, StreamOptions};
use crate::keeper::protocol::AttachedStreams;

/// A client that reads in bursts is not detached at once: the kernel keeps this much for it, if it permits that size.
const ATTACH_PIPE_BYTES: usize = 1 << 20;

/// The streams of a process without a terminal, and the three descriptors for the request `Exec`. A stream that was not asked for is
/// the null device for the process.
///
/// # Errors
/// If no more descriptors can be made.
pub fn exec_pipes(options: StreamOptions) -> io::Result<(ProcessStreams, [OwnedFd; 3])> {
    let (stdin, their_stdin) = if options.stdin {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        (Some(writer), reader)
    } else {
        (None, open_null()?)
    };
    let output = |chosen: bool| -> io::Result<(Option<OwnedFd>, OwnedFd)> {
        if !chosen {
            return Ok((None, open_null()?));
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok((Some(reader), writer))
    };
    let (stdout, their_stdout) = output(options.stdout)?;
    let (stderr, their_stderr) = output(options.stderr)?;
    Ok((ProcessStreams::Pipes { stdin, stdout, stderr }, [their_stdin, their_stdout, their_stderr]))
}

/// The streams of a client of a container, and the fields and descriptors of the request `Attach`.
///
/// # Errors
/// If no more descriptors can be made.
pub fn attach_pipes(options: StreamOptions) -> io::Result<(ProcessStreams, AttachedStreams, Vec<OwnedFd>)> {
    let chosen = AttachedStreams {
        stdin: options.stdin,
        stdout: options.stdout,
        stderr: options.stderr && !options.tty,
    };
    let mut theirs = Vec::new();
    let mut stdin = None;
    if chosen.stdin {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        stdin = Some(writer);
        theirs.push(reader);
    }
    let mut output = |chosen: bool| -> io::Result<Option<OwnedFd>> {
        if !chosen {
            return Ok(None);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // An unprivileged runtime may have used up what it may enlarge.
        let _ = fcntl_setpipe_size(&writer, ATTACH_PIPE_BYTES);
        theirs.push(writer);
        Ok(Some(reader))
    };
    let (stdout, stderr) = (output(chosen.stdout)?, output(chosen.stderr)?);
    Ok((ProcessStreams::Pipes { stdin, stdout, stderr }, chosen, theirs))
}

/// The socket on which a keeper sends the master side of a new terminal.
#[derive(Debug)]
pub struct ConsoleSocket(OwnedFd);

impl ConsoleSocket {
    /// The socket, and the descriptor for the request `Exec`.
    ///
    /// # Errors
    /// If no more descriptors can be made.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self(ours), theirs))
    }

    /// The master side of the terminal. The keeper sends it before it answers the request.
    ///
    /// # Errors
    /// If the keeper closed the socket without sending a descriptor.
    pub async fn receive(self) -> io::Result<OwnedFd> {
        let socket = UnixStream::from_std(self.0.into())?;
        socket.async_io(Interest::READABLE, || receive_descriptor(&socket)).await
    }
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut byte)];
    match recvmsg(socket, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
        Ok(_) => {}
        Err(Errno::INTR) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(errno) => return Err(errno.into()),
    }
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn open_null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}
