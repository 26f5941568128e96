//! One connection from its first byte to its last.

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

use super::activity::Activity;
use super::strangers::Stranger;
use crate::guarded_body::GuardedBody;
use crate::peer::Peer;

/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// By then somebody must have been recognised.
const RECOGNITION: Duration = Duration::from_secs(15);
/// A connection that is not used ends after this, as upstream's.
const IDLE: Duration = Duration::from_secs(90);
/// Longest header of a request, as upstream's.
const MAX_HEADER: u32 = 1024 * 1024;
/// Requests at once on one HTTP/2 connection, as upstream's.
const STREAMS: u32 = 250;
/// Signs of life on HTTP/2.
const PING: Duration = Duration::from_secs(30);
/// A connection that is quiet for so long is asked for a sign of life, so often, before it counts as lost.
const QUIET: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(15);
const ASKED: u32 = 3;

/// A connection that was let in, with the places it takes.
pub(super) struct Admitted {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) stranger: Stranger,
}

pub(super) async fn serve_connection(
    admitted: Admitted,
    tls: Option<TlsAcceptor>,
    router: Router,
    cancel: CancellationToken,
) {
    let Admitted { stream, address, place, stranger } = admitted;
    // Small answers must not wait for more to be sent with them.
    let _ = stream.set_nodelay(true);
    if let Err(error) = keep_alive(&stream) {
        tracing::debug!(%address, %error, "a lost connection will not be noticed");
    }
    let Some(acceptor) = tls else {
        let peer = Peer::new(address, &[], stranger);
        // Nobody has to say who they are on a plain port.
        peer.recognised();
        return serve_http(Placed { stream, _place: place }, peer, router, cancel).await;
    };
    let sent_away = stranger.sent_away();
    let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = sent_away.cancelled() => return,
        () = cancel.cancelled() => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            tracing::debug!(%address, "no TLS handshake in {HANDSHAKE:?}");
            return;
        }
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer::new(address, chain, stranger);
    tokio::select! {
        () = sent_away.cancelled() => {}
        () = serve_http(Placed { stream, _place: place }, peer, router, cancel) => {}
    }
}

/// Makes the kernel notice a client that vanished: who only listens, as to a log, would never be missed.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, QUIET)?;
    sockopt::set_tcp_keepintvl(stream, ASK_AGAIN)?;
    sockopt::set_tcp_keepcnt(stream, ASKED)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

async fn serve_http<S>(stream: S, peer: Peer, router: Router, cancel: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = Activity::new();
    let service = hyper::service::service_fn({
        let (activity, peer) = (activity.clone(), peer.clone());
        move |mut request: Request<Incoming>| {
            let under_way = activity.begin();
            request.extensions_mut().insert(peer.clone());
            let answer = router.clone().oneshot(request.map(Body::new));
            async move {
                let answer: Response<Body> = answer.await?;
                Ok::<_, Infallible>(answer.map(|body| GuardedBody::new(body, under_way)))
            }
        }
    });
    let builder = builder();
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut quiet = pin!(until_of_no_use(&activity, &peer));
    let ending = tokio::select! {
        result = connection.as_mut() => return told(&peer, result),
        () = cancel.cancelled() => true,
        () = quiet.as_mut() => peer.is_recognised(),
    };
    // A stranger gets no time to end well.
    if ending {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(IDLE, connection).await;
    }
}

fn told(peer: &Peer, result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(peer = ?peer.address(), %error, "a connection broke");
    }
}

/// Ends when nobody was recognised in time, or when the connection was idle for long.
async fn until_of_no_use(activity: &Activity, peer: &Peer) {
    tokio::time::sleep(RECOGNITION).await;
    while !peer.is_recognised() && activity.is_busy() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    if !peer.is_recognised() {
        return;
    }
    loop {
        let idle = activity.idle();
        if idle >= IDLE {
            return;
        }
        tokio::time::sleep(IDLE - idle).await;
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(MAX_HEADER as usize)
        .keep_alive(true)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

/// A stream that takes a place until it is closed, also when it was upgraded and handed on.
struct Placed<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
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
    async fn a_client_that_vanished_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        keep_alive(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let quiet = sockopt::tcp_keepidle(&stream).unwrap();
        let (again, asked) =
            (sockopt::tcp_keepintvl(&stream).unwrap(), sockopt::tcp_keepcnt(&stream).unwrap());
        assert_eq!((quiet, again, asked), (QUIET, ASK_AGAIN, ASKED));
    }
}
