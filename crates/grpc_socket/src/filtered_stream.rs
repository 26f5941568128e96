//! A connection whose incoming bytes pass an [`AuthorityFilter`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::AuthorityFilter;

const READ_SIZE: usize = 16 * 1024;

#[derive(Debug)]
pub struct FilteredStream<S> {
    inner: S,
    filter: AuthorityFilter,
    /// Filtered bytes that were not read yet.
    ready: BytesMut,
}

impl<S> FilteredStream<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, filter: AuthorityFilter::default(), ready: BytesMut::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FilteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let mut chunk = [0; READ_SIZE];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.filter
                .push(chunk.filled(), &mut this.ready)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
        let count = this.ready.len().min(buffer.remaining());
        buffer.put_slice(this.ready.get(..count).unwrap_or_default());
        this.ready.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FilteredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: Connected> Connected for FilteredStream<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}
