//! Serves one connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
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
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::activity::ConnectionActivity;
use super::unauthenticated_connections::UnauthenticatedConnection;
use crate::guarded_body::GuardedBody;
use crate::peer::Peer;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection without an authenticated request is closed after this time.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(15);
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
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) unauthenticated: UnauthenticatedConnection,
}

pub(super) async fn serve_connection(
    accepted: AcceptedConnection,
    tls: Option<TlsAcceptor>,
    router: Router,
    cancel: CancellationToken,
) {
    let AcceptedConnection { stream, address, permit, unauthenticated } = accepted;
    // Small responses must not wait for more data.
    let _ = stream.set_nodelay(true);
    if let Err(error) = set_keepalive(&stream) {
        tracing::debug!(%address, %error, "failed to set TCP keepalive, a lost client will not be detected");
    }
    let Some(acceptor) = tls else {
        let peer = Peer::new(address, &[], unauthenticated);
        // A plain port has no authentication.
        peer.mark_authenticated();
        return serve_http(PermitStream { stream, _permit: permit }, peer, router, cancel).await;
    };
    let displaced = unauthenticated.closed();
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let result = tokio::select! {
        result = handshake => result,
        () = displaced.cancelled() => return,
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
    let peer = Peer::new(address, chain, unauthenticated);
    tokio::select! {
        () = displaced.cancelled() => {}
        () = serve_http(PermitStream { stream, _permit: permit }, peer, router, cancel) => {}
    }
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

async fn serve_http<S>(stream: S, peer: Peer, router: Router, cancel: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = ConnectionActivity::new();
    let service = hyper::service::service_fn({
        let (activity, peer) = (activity.clone(), peer.clone());
        move |mut request: Request<Incoming>| {
            let active_request = activity.start_request();
            request.extensions_mut().insert(peer.clone());
            let response = router.clone().oneshot(request.map(Body::new));
            async move {
                let response: Response<Body> = response.await?;
                Ok::<_, Infallible>(response.map(|body| GuardedBody::new(body, active_request)))
            }
        }
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut unused = pin!(wait_until_unused(&activity, &peer));
    let is_graceful = tokio::select! {
        result = connection.as_mut() => return log_result(&peer, result),
        () = cancel.cancelled() => true,
        () = unused.as_mut() => peer.is_authenticated(),
    };
    // An unauthenticated connection is closed without grace.
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

/// Returns when no request was authenticated in time, or when the connection has been idle for too long.
async fn wait_until_unused(activity: &ConnectionActivity, peer: &Peer) {
    tokio::time::sleep(AUTHENTICATION_TIMEOUT).await;
    while !peer.is_authenticated() && activity.is_busy() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if !peer.is_authenticated() {
        return;
    }
    loop {
        let idle = activity.idle_time();
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

/// A stream that holds a connection permit until it is closed, also after an upgrade.
struct PermitStream<S> {
    stream: S,
    _permit: OwnedSemaphorePermit,
}

impl<S: AsyncRead + Unpin> AsyncRead for PermitStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PermitStream<S> {
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
