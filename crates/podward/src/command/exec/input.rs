//! What is typed or piped in.

use std::io::Read;

use anyhow::Context;
use tokio::sync::mpsc;

/// The largest piece that is handed on at once.
const PIECE: usize = 32 * 1024;
/// Pieces that may wait: whoever types waits for the container to read.
const WAITING: usize = 4;

/// The standard input, piece by piece, with an end.
pub(super) struct Input {
    pieces: Option<mpsc::Receiver<std::io::Result<Vec<u8>>>>,
}

impl Input {
    /// No input at all.
    pub(super) fn none() -> Self {
        Self { pieces: None }
    }

    /// Reads on a thread of its own: a read of a terminal cannot be called off, and ends with the program.
    pub(super) fn start() -> anyhow::Result<Self> {
        let (sender, pieces) = mpsc::channel(WAITING);
        let read = move || {
            let mut input = std::io::stdin();
            let mut buffer = vec![0; PIECE];
            loop {
                let read = match input.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => Ok(buffer.get(..count).unwrap_or_default().to_vec()),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_last = read.is_err();
                if sender.blocking_send(read).is_err() || is_last {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read).context("read the input")?;
        Ok(Self { pieces: Some(pieces) })
    }

    /// The next piece; `None` once at the end, and then never anything.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(pieces) = &mut self.pieces else { return std::future::pending().await };
        match pieces.recv().await {
            Some(piece) => piece.map(Some).context("read the input"),
            None => {
                self.pieces = None;
                Ok(None)
            }
        }
    }
}
