//! Output of a container: two pipes, their unfinished lines, and the log file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::launcher::LaunchError;
use crate::logs::{LineSplitter, LogFile, Stream};

const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Output {
    pipes: [Option<OwnedFd>; 2],
    lines: [LineSplitter; 2],
    log: Option<LogFile>,
}

pub(super) const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Output {
    /// Opens the log, and makes the standard streams of the container: no input, two pipes.
    pub(super) fn new(log: Option<&Path>) -> Result<(Self, [OwnedFd; 3]), LaunchError> {
        let log = log.map(LogFile::open).transpose();
        let log = log.map_err(|error| LaunchError::Message(describe(&error)))?;
        let make = || -> rustix::io::Result<_> {
            let null =
                rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
            let (out_reader, out_writer) = pipe_with(PipeFlags::CLOEXEC)?;
            let (error_reader, error_writer) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setfl(&out_reader, OFlags::NONBLOCK)?;
            fcntl_setfl(&error_reader, OFlags::NONBLOCK)?;
            Ok(([Some(out_reader), Some(error_reader)], [null, out_writer, error_writer]))
        };
        let (pipes, stdio) =
            make().map_err(|errno| LaunchError::Message(format!("make standard streams: {errno}")))?;
        Ok((Self { pipes, lines: Default::default(), log }, stdio))
    }

    pub(super) fn pipe(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.pipes.get(index(stream))?.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipes.iter().all(Option::is_none)
    }

    /// Moves what can be read at once to the log.
    pub(super) fn read(&mut self, stream: Stream, buffer: &mut Vec<u8>) {
        let Some(slot) = self.pipes.get_mut(index(stream)) else { return };
        let Some(pipe) = slot.as_ref() else { return };
        buffer.resize(READ_BYTES, 0);
        let bytes = match rustix::io::read(pipe, buffer.as_mut_slice()) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => 0,
        };
        let (Some(lines), Some(read)) = (self.lines.get_mut(index(stream)), buffer.get(..bytes)) else {
            return;
        };
        let log = &mut self.log;
        let mut write = |piece: crate::logs::Piece<'_>| {
            if let Some(log) = log {
                log.write(stream, &piece);
            }
        };
        if read.is_empty() {
            lines.finish(&mut write);
            *slot = None;
        } else {
            lines.push(read, &mut write);
        }
    }

    /// Takes what is still in the pipes and closes them, although another process may hold the other ends.
    pub(super) fn close(&mut self, buffer: &mut Vec<u8>) {
        for stream in STREAMS {
            // A pipe holds at most 1 MiB; a process that writes without end must not keep this loop busy.
            for _ in 0..(1 << 20) / READ_BYTES {
                self.read(stream, buffer);
            }
            if let Some(slot) = self.pipes.get_mut(index(stream)) {
                *slot = None;
            }
        }
        self.log = None;
    }

    pub(super) fn reopen_log(&mut self) -> Result<(), String> {
        self.log.as_mut().map_or(Ok(()), LogFile::reopen).map_err(|error| describe(&error))
    }
}

fn index(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
    }
}

/// An error with its causes.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
