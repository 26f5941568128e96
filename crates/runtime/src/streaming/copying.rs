//! The ends of a process's streams, and loops that copy to and from them.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::backend::ProcessStreams;
use super::client::{Input, Output};
use crate::launcher::TerminalSize;

const CHUNK_BYTES: usize = 32 * 1024;
/// How long output is awaited after the exit if another process holds the pipe, and how much of it is read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DRAIN_BYTES: usize = 1 << 20;

/// This process's ends, registered with the async runtime.
pub(super) struct Streams {
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<pipe::Receiver>,
    pub(super) stderr: Option<pipe::Receiver>,
    /// The master side of a terminal.
    pub(super) terminal: Option<OwnedFd>,
}

impl Streams {
    pub(super) fn new(streams: ProcessStreams) -> io::Result<Self> {
        match streams {
            ProcessStreams::Pipes { stdin, stdout, stderr } => Ok(Self {
                stdin: stdin.map(pipe::Sender::from_owned_fd).transpose()?,
                stdout: stdout.map(pipe::Receiver::from_owned_fd).transpose()?,
                stderr: stderr.map(pipe::Receiver::from_owned_fd).transpose()?,
                terminal: None,
            }),
            ProcessStreams::Terminal(master) => {
                fcntl_setfl(&master, fcntl_getfl(&master)? | OFlags::NONBLOCK)?;
                Ok(Self {
                    stdin: Some(pipe::Sender::from_owned_fd_unchecked(master.try_clone()?)?),
                    stdout: Some(pipe::Receiver::from_owned_fd_unchecked(master.try_clone()?)?),
                    stderr: None,
                    terminal: Some(master),
                })
            }
        }
    }
}

/// Writes the client's input to the process. What a process does not read any more is dropped.
pub(super) async fn copy_input(
    mut stdin: Option<pipe::Sender>,
    mut input: mpsc::Receiver<Input>,
    ended: &AtomicBool,
) -> Infallible {
    while let Some(next) = input.recv().await {
        match next {
            Input::Data(bytes) => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(&bytes).await.is_err()
                {
                    stdin = None;
                }
            }
            Input::End => {
                ended.store(true, Ordering::Relaxed);
                stdin = None;
            }
        }
    }
    // The connection reports its own end.
    std::future::pending().await
}

/// Copies output until it ends, or until shortly after the exit if another process keeps it open.
pub(super) async fn copy_outputs(
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    output: &mpsc::Sender<Output>,
    exited: watch::Receiver<bool>,
) {
    let stdout = copy_output(stdout, output, exited.clone(), Output::Stdout, Output::StdoutEnd);
    let stderr = copy_output(stderr, output, exited, Output::Stderr, Output::StderrEnd);
    tokio::join!(stdout, stderr);
}

async fn copy_output(
    source: Option<pipe::Receiver>,
    output: &mpsc::Sender<Output>,
    mut exited: watch::Receiver<bool>,
    data: fn(Bytes) -> Output,
    end: Output,
) {
    let Some(mut source) = source else { return };
    let mut buffer = BytesMut::new();
    let mut drained = 0;
    while drained <= MAX_DRAIN_BYTES {
        buffer.reserve(CHUNK_BYTES);
        let has_exited = *exited.borrow_and_update();
        let read = if has_exited {
            timeout(DRAIN_TIMEOUT, source.read_buf(&mut buffer)).await.unwrap_or(Ok(0))
        } else {
            tokio::select! {
                read = source.read_buf(&mut buffer) => read,
                Ok(()) = exited.changed() => continue,
            }
        };
        // A terminal that no process has open returns an error.
        let Ok(bytes @ 1..) = read else { break };
        if has_exited {
            drained += bytes;
        }
        if output.send(data(buffer.split().freeze())).await.is_err() {
            return;
        }
    }
    // The connection may have ended.
    let _ = output.send(end).await;
}

pub(super) async fn resize_terminal(
    terminal: Option<OwnedFd>,
    mut size: watch::Receiver<Option<TerminalSize>>,
) -> Infallible {
    while size.changed().await.is_ok() {
        let latest = *size.borrow_and_update();
        if let (Some(terminal), Some(TerminalSize { columns, rows })) = (&terminal, latest) {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            // The process that ends at the same time has closed it.
            let _ = tcsetwinsize(terminal, size);
        }
    }
    std::future::pending().await
}
