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
use super::dispatch::{Session, spdy_protocols, websocket_session};
use super::handshake::{Refusal, Upgrade, accept_spdy, accept_websocket, refuse, upgrade_of};
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
    backend: Arc<dyn StreamBackend>,
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
            let sessions = Sessions { tasks: tasks.clone(), stop: stop.clone() };
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = server.serve_connection(connection, sessions) => {}
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn serve_connection(self: Arc<Self>, connection: TcpStream, sessions: Sessions) {
        let service = service_fn(move |request| {
            let response = self.respond(request, &sessions).unwrap_or_else(refusal);
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

    /// Answers a request; the session starts when the connection is upgraded.
    fn respond(&self, mut request: Request<Incoming>, sessions: &Sessions) -> Result<Response, Refusal> {
        if !matches!(*request.method(), Method::GET | Method::POST) {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "use GET or POST"));
        }
        let path = request.uri().path().trim_start_matches('/');
        let (route, token) = path.split_once('/').unwrap_or_default();
        let unknown =
            || refuse(StatusCode::NOT_FOUND, "the URL is not known, was used before or has expired");
        let stream = self.tokens.take(route, token).ok_or_else(unknown)?;
        let upgrade = upgrade_of(request.headers())
            .ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "Upgrade request required"))?;
        let (headers, session) = match upgrade {
            Upgrade::Spdy => {
                let (headers, protocol) = accept_spdy(request.headers(), spdy_protocols(&stream))?;
                (headers, Session::Spdy { stream, protocol })
            }
            Upgrade::WebSocket => {
                let session = websocket_session(stream, request.headers())?;
                (accept_websocket(&request, session.protocol())?, session)
            }
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let (backend, timeouts) = (Arc::clone(&self.backend), self.timeouts);
        let gone = sessions.stop.child_token();
        sessions.tasks.spawn(async move {
            // A client that leaves before its stream starts needs nothing.
            if let Ok(upgraded) = upgrade.await {
                session.run(TokioIo::new(upgraded), backend, timeouts, gone).await;
            }
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The tasks of all sessions.
#[derive(Clone)]
struct Sessions {
    tasks: TaskTracker,
    stop: CancellationToken,
}

type Response = hyper::Response<Full<Bytes>>;

fn refusal(refusal: Refusal) -> Response {
    let Refusal { status, text, headers } = refusal;
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    *response.headers_mut() = headers.unwrap_or_default();
    response
}
