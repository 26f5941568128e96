//! A client of a process, behind any protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::status::Outcome;
use crate::launcher::TerminalSize;

/// Chunks of input that wait for the process.
const INPUT_CHUNKS: usize = 8;
/// Chunks of output that wait for the connection.
const OUTPUT_CHUNKS: usize = 4;

/// Input from the client.
#[derive(Debug)]
pub(super) enum Input {
    Data(Bytes),
    End,
}

/// Output for the client. The status is the last.
#[derive(Debug)]
pub(super) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    StdoutEnd,
    StderrEnd,
    Status(Outcome),
}

/// The session's side.
pub(super) struct Client {
    pub(super) input: mpsc::Receiver<Input>,
    pub(super) size: watch::Receiver<Option<TerminalSize>>,
    pub(super) output: mpsc::Sender<Output>,
    /// The client has left, or the server stops.
    pub(super) gone: CancellationToken,
}

/// The connection's side of what the client sends.
pub(super) struct ClientInput {
    pub(super) input: mpsc::Sender<Input>,
    pub(super) size: watch::Sender<Option<TerminalSize>>,
}

/// Both sides. `gone` is cancelled when the connection has ended.
pub(super) fn client(gone: CancellationToken) -> (Client, ClientInput, mpsc::Receiver<Output>) {
    let (send_input, input) = mpsc::channel(INPUT_CHUNKS);
    let (send_size, size) = watch::channel(None);
    let (output, receive_output) = mpsc::channel(OUTPUT_CHUNKS);
    (Client { input, size, output, gone }, ClientInput { input: send_input, size: send_size }, receive_output)
}

/// The time of the last data in either direction.
#[derive(Clone)]
pub(super) struct Activity {
    start: Instant,
    last: Arc<AtomicU64>,
    timeout: Duration,
}

impl Activity {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { start: Instant::now(), last: Arc::default(), timeout }
    }

    pub(super) fn record(&self) {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// Completes when nothing was recorded for too long.
    pub(super) async fn idle(&self) {
        loop {
            let until = self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + self.timeout;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
