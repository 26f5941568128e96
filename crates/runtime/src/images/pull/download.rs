//! Downloads of blobs, which continue where the last one ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::{Pull, PullError, blocking};
use crate::images::manifest::Descriptor;
use crate::images::registry::RegistryError;
use crate::images::store::{Ingest, StoreError};

/// A server that sends nothing for so long is asked again.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);
/// Failures in a row without a new byte, after which the download ends.
const MAX_FAILURES: u32 = 3;
/// Chunks between the network and the disk.
const CHUNKS: usize = 16;

impl Pull {
    /// Fetches and verifies a blob, unless the store has it. `layer` is its number for the progress.
    pub(super) async fn download(
        &self,
        descriptor: &Descriptor,
        layer: Option<usize>,
    ) -> Result<(), PullError> {
        let (blobs, wanted) = (self.store.blobs(), descriptor.clone());
        let Some(mut ingest) = blocking(move || blobs.ingest(&wanted)).await?? else { return Ok(()) };
        let mut failures = 0;
        while ingest.offset() < descriptor.size {
            let before = ingest.offset();
            let result;
            (ingest, result) = self.continue_download(ingest, descriptor, layer).await?;
            let Err(error) = result else { continue };
            failures = if ingest.offset() > before { 0 } else { failures + 1 };
            if failures >= MAX_FAILURES {
                return Err(error.into());
            }
        }
        Ok(blocking(move || ingest.commit()).await??)
    }

    /// One response. The inner error is one of the network.
    async fn continue_download(
        &self,
        mut ingest: Ingest,
        descriptor: &Descriptor,
        layer: Option<usize>,
    ) -> Result<(Ingest, Result<(), RegistryError>), PullError> {
        let (response, begins) = self.session.blob(&descriptor.digest, ingest.offset()).await?;
        if begins == 0 && ingest.offset() > 0 {
            ingest = blocking(move || ingest.restart().map(|()| ingest)).await??;
        }
        let (chunks, received) = mpsc::channel(CHUNKS);
        let in_use = Arc::clone(&self.in_use);
        let writer = blocking(move || {
            let written = write_chunks(ingest, received);
            drop(in_use);
            written
        });
        let mut fetched = begins;
        // The channel closes when the reader ends, which ends the writer.
        let fetched = &mut fetched;
        let reader = async move {
            let mut body = response.into_body();
            let url = format!("blob {}", descriptor.digest);
            loop {
                let chunk = match next_chunk(&mut body, &url).await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) if *fetched < descriptor.size => return Err(ended_early(&url)),
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(error),
                };
                *fetched += chunk.len() as u64;
                if let Some(number) = layer {
                    let count = *fetched;
                    self.update(number, |layer| layer.fetched = count);
                }
                if chunks.send(chunk).await.is_err() {
                    // The writer failed and returns the error.
                    return Ok(());
                }
            }
        };
        let (result, written) = futures::future::join(reader, writer).await;
        Ok((written??, result))
    }
}

fn write_chunks(mut ingest: Ingest, mut chunks: mpsc::Receiver<Bytes>) -> Result<Ingest, StoreError> {
    while let Some(chunk) = chunks.blocking_recv() {
        ingest.write(&chunk)?;
    }
    Ok(ingest)
}

async fn next_chunk(body: &mut Incoming, url: &str) -> Result<Option<Bytes>, RegistryError> {
    loop {
        let frame = tokio::time::timeout(CHUNK_TIMEOUT, body.frame()).await;
        let stalled = || RegistryError::Stalled { url: url.to_owned(), seconds: CHUNK_TIMEOUT.as_secs() };
        match frame.map_err(|_| stalled())? {
            None => return Ok(None),
            Some(Err(error)) => {
                return Err(RegistryError::Unreachable { url: url.to_owned(), source: error.into() });
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

fn ended_early(url: &str) -> RegistryError {
    let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    RegistryError::Unreachable { url: url.to_owned(), source: source.into() }
}
