//! Serves one connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connection_table::OpenConnection;
use crate::guarded_body::GuardedBody;
use crate::peer::Peer;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that is not recognised is closed after this time.
const RECOGNITION_TIMEOUT: Duration = Duration::from_secs(15);
/// As upstream.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// In bytes, as upstream.
const MAX_HEADER: u32 = 1024 * 1024;
/// Concurrent requests of one HTTP/2 connection, as upstream.
const MAX_STREAMS: u32 = 250;
/// Interval and timeout of HTTP/2 pings.
const PING: Duration = Duration::from_secs(30);
const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const TCP_KEEPALIVE_COUNT: u32 = 3;

pub(super) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) connection: Arc<OpenConnection>,
}

pub(super) async fn serve_connection(
    accepted: AcceptedConnection,
    tls: Option<TlsAcceptor>,
    router: Router,
    cancel: CancellationToken,
) {
    let AcceptedConnection { stream, address, connection } = accepted;
    // Small responses must not wait for more data.
    let _ = stream.set_nodelay(true);
    if let Err(error) = set_keepalive(&stream) {
        tracing::debug!(%address, %error, "failed to set TCP keepalive, a lost client will not be detected");
    }
    let Some(acceptor) = tls else {
        let peer = Peer::new(address, &[], Arc::clone(&connection));
        // A plain port has no authentication: the first complete request is enough.
        return serve_http(stream, connection, (peer, Recognition::FirstRequest), router, cancel).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let result = tokio::select! {
        result = handshake => result,
        () = connection.displaced() => return,
        () = cancel.cancelled() => return,
    };
    let stream = match result {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%address, "TLS handshake timed out after {HANDSHAKE_TIMEOUT:?}");
            return;
        }
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::new(address, chain, Arc::clone(&connection));
    serve_http(stream, connection, (peer, Recognition::Authentication), router, cancel).await;
}

/// When a connection is recognised.
#[derive(Clone, Copy)]
enum Recognition {
    FirstRequest,
    Authentication,
}

/// Lets the kernel detect clients that vanished. Without this, a client that only reads, such as one that follows a log,
/// would keep its connection forever.
fn set_keepalive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, TCP_KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, TCP_KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, TCP_KEEPALIVE_COUNT)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

async fn serve_http<S>(
    stream: S,
    open: Arc<OpenConnection>,
    (peer, recognition): (Peer, Recognition),
    router: Router,
    cancel: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = hyper::service::service_fn({
        let (open, peer) = (Arc::clone(&open), peer.clone());
        move |mut request: Request<Incoming>| {
            let active_request = open.start_request();
            match recognition {
                Recognition::FirstRequest => open.recognise(),
                Recognition::Authentication => {}
            }
            request.extensions_mut().insert(peer.clone());
            let response = router.clone().oneshot(request.map(Body::new));
            async move {
                let response: Response<Body> = response.await?;
                Ok::<_, Infallible>(response.map(|body| GuardedBody::new(body, active_request)))
            }
        }
    });
    let builder = builder();
    let stream = CountedStream { stream, _open: Arc::clone(&open) };
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut unused = pin!(wait_until_unused(&open));
    let is_graceful = tokio::select! {
        result = connection.as_mut() => {
            // If the stream is still open, it was upgraded.
            open.upgraded();
            return log_result(&peer, result);
        }
        () = open.displaced() => return,
        () = cancel.cancelled() => true,
        () = unused.as_mut() => open.is_recognised(),
    };
    // An unrecognised connection is closed without grace.
    if is_graceful {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(IDLE_TIMEOUT, connection).await;
    }
}

fn log_result(peer: &Peer, result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(peer = ?peer.address(), %error, "connection failed");
    }
}

/// Returns when no request was recognised in time, or when the connection has been idle for too long.
async fn wait_until_unused(open: &OpenConnection) {
    tokio::time::sleep(RECOGNITION_TIMEOUT).await;
    while !open.is_recognised() && open.is_busy() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if !open.is_recognised() {
        return;
    }
    loop {
        let idle = open.idle_time();
        if idle >= IDLE_TIMEOUT {
            return;
        }
        tokio::time::sleep(IDLE_TIMEOUT - idle).await;
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(MAX_HEADER as usize)
        .keep_alive(true)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER)
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

/// A stream that counts as an open connection until it is closed, also after an upgrade.
struct CountedStream<S> {
    stream: S,
    _open: Arc<OpenConnection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn sets_tcp_keepalive_on_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        set_keepalive(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        let (interval, count) =
            (sockopt::tcp_keepintvl(&stream).unwrap(), sockopt::tcp_keepcnt(&stream).unwrap());
        assert_eq!(
            (idle, interval, count),
            (TCP_KEEPALIVE_IDLE, TCP_KEEPALIVE_INTERVAL, TCP_KEEPALIVE_COUNT)
        );
    }
}
