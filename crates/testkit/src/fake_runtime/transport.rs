use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// Buffer size of an in-memory connection.
const MEMORY_BUFFER: usize = 64 * 1024;

/// Address that the fake listens on.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Socket(PathBuf),
    /// In memory; `None` while the server is down.
    Memory(Arc<Mutex<Option<mpsc::Sender<DuplexStream>>>>),
}

pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

pub(crate) type Incoming = Pin<Box<dyn Stream<Item = io::Result<Box<dyn Connection>>> + Send>>;

impl Address {
    pub(crate) fn listen(&self) -> io::Result<Incoming> {
        match self {
            Self::Socket(path) => {
                remove_socket(path)?;
                let accepted = UnixListenerStream::new(UnixListener::bind(path)?);
                Ok(Box::pin(
                    accepted.map(|stream| stream.map(|stream| Box::new(stream) as Box<dyn Connection>)),
                ))
            }
            Self::Memory(door) => {
                let (sender, receiver) = mpsc::channel(16);
                *door.lock() = Some(sender);
                let accepted = ReceiverStream::new(receiver);
                Ok(Box::pin(accepted.map(|stream| Ok(Box::new(stream) as Box<dyn Connection>))))
            }
        }
    }

    pub(crate) fn close(&self) -> io::Result<()> {
        match self {
            Self::Socket(path) => remove_socket(path),
            Self::Memory(door) => {
                *door.lock() = None;
                Ok(())
            }
        }
    }

    /// A client channel that connects lazily and reconnects as needed.
    pub(crate) fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_static("http://localhost");
        let address = self.clone();
        endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let address = address.clone();
            async move { address.connect().await.map(TokioIo::new) }
        }))
    }

    async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        match self {
            Self::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Self::Memory(door) => {
                let sender = door.lock().clone();
                let sender = sender.ok_or(io::ErrorKind::ConnectionRefused)?;
                let (ours, theirs) = tokio::io::duplex(MEMORY_BUFFER);
                sender.send(theirs).await.map_err(|_| io::ErrorKind::ConnectionRefused)?;
                Ok(Box::new(ours))
            }
        }
    }
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A connection that breaks, even during calls, when the server stops.
pub(crate) struct Breakable {
    inner: Box<dyn Connection>,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Breakable {
    pub(crate) fn new(inner: Box<dyn Connection>, broken: CancellationToken) -> Self {
        Self { inner, broken: Box::pin(broken.cancelled_owned()) }
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.broken.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl Connected for Breakable {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
