//! Reads standard input for the container.

use std::io::Read;

use anyhow::Context;
use tokio::sync::mpsc;

const CHUNK: usize = 32 * 1024;
/// Chunks to buffer until the container reads them.
const MAX_BUFFERED: usize = 4;

pub(super) struct Stdin {
    chunks: Option<mpsc::Receiver<std::io::Result<Vec<u8>>>>,
}

impl Stdin {
    /// Never returns data or an end.
    pub(super) fn none() -> Self {
        Self { chunks: None }
    }

    /// Reads on a separate thread, because a read from a terminal cannot be cancelled.
    pub(super) fn start() -> anyhow::Result<Self> {
        let (sender, chunks) = mpsc::channel(MAX_BUFFERED);
        let read = move || {
            let mut input = std::io::stdin();
            let mut buffer = vec![0; CHUNK];
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
        std::thread::Builder::new().name("stdin".to_owned()).spawn(read).context("read standard input")?;
        Ok(Self { chunks: Some(chunks) })
    }

    /// The next chunk. Returns `None` once, at the end; after that, it never completes.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(chunks) = &mut self.chunks else { return std::future::pending().await };
        match chunks.recv().await {
            Some(chunk) => chunk.map(Some).context("read standard input"),
            None => {
                self.chunks = None;
                Ok(None)
            }
        }
    }
}
