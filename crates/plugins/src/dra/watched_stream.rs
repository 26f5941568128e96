//! A connection that shows when it is closed.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// For a driver to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a socket. The sender of the returned receiver is dropped when the connection is closed; calls fail from then on,
/// because the channel does not connect again.
pub(super) async fn dial(socket: &Path) -> Result<(Channel, watch::Receiver<()>), Status> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(socket)).await;
    let unavailable = |cause: &dyn std::fmt::Display| {
        Status::unavailable(format!("connect to {}: {cause}", socket.display()))
    };
    let stream = match connected {
        Ok(stream) => stream.map_err(|error| unavailable(&error))?,
        Err(_) => return Err(unavailable(&"timed out")),
    };
    let (sender, open) = watch::channel(());
    let mut stream = Some(WatchedStream { stream, _open: sender });
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { stream.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let handshake = tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect_with_connector(connector)).await;
    match handshake {
        Ok(channel) => Ok((channel.map_err(|error| unavailable(&error))?, open)),
        Err(_) => Err(unavailable(&"timed out")),
    }
}

struct WatchedStream {
    stream: UnixStream,
    _open: watch::Sender<()>,
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
