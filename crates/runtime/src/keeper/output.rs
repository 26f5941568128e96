//! Output of a container: two pipes or a terminal, their unfinished lines, and the log file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;

use super::clients::Clients;
use crate::launcher::LaunchError;
use crate::logs::{LineSplitter, LogFile, Stream};

const READ_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Output {
    sources: [Option<OwnedFd>; 2],
    lines: [LineSplitter; 2],
    log: Option<LogFile>,
}

pub(super) const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Output {
    pub(super) fn new(log: Option<&Path>, sources: [Option<OwnedFd>; 2]) -> Result<Self, LaunchError> {
        let log = log.map(LogFile::open).transpose();
        let log = log.map_err(|error| LaunchError::Message(describe(&error)))?;
        Ok(Self { sources, lines: Default::default(), log })
    }

    /// Takes the master side of a terminal, whose output is standard output only.
    pub(super) fn set_terminal(&mut self, master: OwnedFd) {
        self.sources = [Some(master), None];
    }

    pub(super) fn source(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.sources.get(stream.index())?.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sources.iter().all(Option::is_none)
    }

    /// Moves what can be read at once to the log and to the clients.
    pub(super) fn read(&mut self, stream: Stream, clients: &mut Clients, buffer: &mut Vec<u8>) {
        let Some(slot) = self.sources.get_mut(stream.index()) else { return };
        let Some(source) = slot.as_ref() else { return };
        buffer.resize(READ_BYTES, 0);
        let bytes = match rustix::io::read(source, buffer.as_mut_slice()) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return,
            // A terminal that no process has open returns EIO.
            Err(_) => 0,
        };
        let (Some(lines), Some(read)) = (self.lines.get_mut(stream.index()), buffer.get(..bytes)) else {
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
            clients.send(stream, read);
        }
    }

    /// Takes what is still in the pipes and closes them, although another process may hold the other ends.
    pub(super) fn close(&mut self, clients: &mut Clients, buffer: &mut Vec<u8>) {
        for stream in STREAMS {
            // A pipe holds at most 1 MiB; a process that writes without end must not keep this loop busy.
            for _ in 0..(1 << 20) / READ_BYTES {
                self.read(stream, clients, buffer);
            }
            if let Some(slot) = self.sources.get_mut(stream.index()) {
                *slot = None;
            }
        }
        self.log = None;
    }

    pub(super) fn reopen_log(&mut self) -> Result<(), String> {
        self.log.as_mut().map_or(Ok(()), LogFile::reopen).map_err(|error| describe(&error))
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
