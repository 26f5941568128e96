//! The listener, and the URLs that lead to it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend::StreamBackend;
use super::tokens::{AttachRequest, ExecRequest, PortForwardRequest, StreamRequest, Tokens, TooManyRequests};

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct StreamTimeouts {
    /// A connection without any data for this long is closed.
    pub idle: Duration,
    /// The client must have opened all streams of a process by then.
    pub creation: Duration,
}

impl Default for StreamTimeouts {
    fn default() -> Self {
        Self { idle: Duration::from_secs(4 * 60 * 60), creation: Duration::from_secs(30) }
    }
}

/// Serves the streams of containers and pods.
pub struct StreamingServer {
    address: SocketAddr,
    listener: TcpListener,
    tokens: Tokens,
    #[expect(dead_code, reason = "the protocols follow")]
    backend: Arc<dyn StreamBackend>,
    #[expect(dead_code, reason = "the protocols follow")]
    timeouts: StreamTimeouts,
}

impl StreamingServer {
    /// Listens on an address, such as 127.0.0.1 with port 0.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn bind(
        address: SocketAddr,
        backend: Arc<dyn StreamBackend>,
        timeouts: StreamTimeouts,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, listener, tokens: Tokens::default(), backend, timeouts })
    }

    /// A URL for one client. The CRI layer has checked that the container runs.
    ///
    /// # Errors
    /// If too many URLs wait for their clients.
    pub fn exec_url(&self, request: ExecRequest) -> Result<String, TooManyRequests> {
        self.url(StreamRequest::Exec(request))
    }

    /// A URL for one client. The CRI layer has checked that the container runs.
    ///
    /// # Errors
    /// If too many URLs wait for their clients.
    pub fn attach_url(&self, request: AttachRequest) -> Result<String, TooManyRequests> {
        self.url(StreamRequest::Attach(request))
    }

    /// A URL for one client. The CRI layer has checked that the sandbox is ready.
    ///
    /// # Errors
    /// If too many URLs wait for their clients.
    pub fn port_forward_url(&self, request: PortForwardRequest) -> Result<String, TooManyRequests> {
        self.url(StreamRequest::PortForward(request))
    }

    fn url(&self, request: StreamRequest) -> Result<String, TooManyRequests> {
        let route = request.route();
        let token = self.tokens.insert(request)?;
        Ok(format!("http://{}/{route}/{token}", self.address))
    }

    /// Serves clients until `stop`, then ends all sessions.
    pub async fn serve(self: Arc<Self>, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let Ok((connection, _)) = accepted else {
                // Descriptors are used up. Sessions that end return theirs.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            // Keystrokes must not wait for more data.
            let _ = connection.set_nodelay(true);
            let (server, stop) = (Arc::clone(&self), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = server.serve_connection(connection) => {}
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn serve_connection(self: Arc<Self>, connection: TcpStream) {
        let service = service_fn(move |request| {
            let response = self.respond(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        // An error ends the connection, and its client notices that.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .serve_connection(TokioIo::new(connection), service)
            .with_upgrades()
            .await;
    }

    fn respond(&self, request: &Request<Incoming>) -> Response {
        let path = request.uri().path().trim_start_matches('/');
        let (route, token) = path.split_once('/').unwrap_or_default();
        if !matches!(*request.method(), Method::GET | Method::POST) {
            return error(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST");
        }
        match self.tokens.take(route, token) {
            None => error(StatusCode::NOT_FOUND, "the URL is not known, was used before or has expired"),
            Some(_) => error(StatusCode::NOT_IMPLEMENTED, "streams are not implemented yet"),
        }
    }
}

type Response = hyper::Response<Full<Bytes>>;

fn error(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response
}
