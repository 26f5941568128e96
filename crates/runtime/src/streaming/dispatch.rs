//! Which code serves a request over the negotiated protocol.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::backend::{StreamBackend, StreamOptions};
use super::channels::ChannelProtocol;
use super::client::{Activity, Client};
use super::handshake::{Refusal, refuse, websocket_protocols};
use super::port_forward::Target;
use super::server::StreamTimeouts;
use super::tokens::{PortForwardRequest, StreamRequest};
use super::{port_forward, session, spdy_process, tunnel, websocket};

pub(super) fn spdy_protocols(stream: &StreamRequest) -> &'static [&'static str] {
    match stream {
        StreamRequest::Exec(_) | StreamRequest::Attach(_) => spdy_process::PROTOCOLS,
        StreamRequest::PortForward(_) => port_forward::PROTOCOLS,
    }
}

pub(super) fn websocket_session(stream: StreamRequest, headers: &HeaderMap) -> Result<Session, Refusal> {
    let offered = websocket_protocols(headers);
    let unsupported = || refuse(StatusCode::BAD_REQUEST, "none of the WebSocket protocols is supported");
    match stream {
        StreamRequest::Exec(_) | StreamRequest::Attach(_) => {
            let protocol = ChannelProtocol::negotiate(&offered).ok_or_else(unsupported)?;
            Ok(Session::Channels { stream, protocol })
        }
        StreamRequest::PortForward(request) => {
            if offered.contains(&tunnel::PROTOCOL) {
                Ok(Session::Tunnel(request))
            } else {
                Err(unsupported())
            }
        }
    }
}

/// A session whose protocol was negotiated.
pub(super) enum Session {
    Spdy { stream: StreamRequest, protocol: &'static str },
    Channels { stream: StreamRequest, protocol: ChannelProtocol },
    Tunnel(PortForwardRequest),
}

impl Session {
    pub(super) fn protocol(&self) -> &'static str {
        match self {
            Self::Spdy { protocol, .. } => protocol,
            Self::Channels { protocol, .. } => protocol.name,
            Self::Tunnel(_) => tunnel::PROTOCOL,
        }
    }

    pub(super) async fn run(
        self,
        connection: TokioIo<Upgraded>,
        backend: Arc<dyn StreamBackend>,
        timeouts: StreamTimeouts,
        gone: CancellationToken,
    ) {
        match self {
            Self::Spdy { stream: StreamRequest::PortForward(request), .. } => {
                let target = Target { backend, sandbox: request.sandbox };
                port_forward::serve(connection, target, timeouts, gone).await;
            }
            Self::Tunnel(request) => {
                let target = Target { backend, sandbox: request.sandbox };
                tunnel::serve(connection, &gone, |inner| {
                    port_forward::serve(inner, target, timeouts, gone.clone())
                })
                .await;
            }
            Self::Spdy { stream, protocol } => {
                let options = options_of(&stream);
                let session = |client| run_process(backend, stream, client);
                spdy_process::serve_process(connection, protocol, options, (timeouts, gone), session).await;
            }
            Self::Channels { stream, protocol } => {
                let options = options_of(&stream);
                let session = |client| run_process(backend, stream, client);
                let activity = Activity::new(timeouts.idle);
                websocket::serve_process(connection, protocol, options, (activity, gone), session).await;
            }
        }
    }
}

fn options_of(stream: &StreamRequest) -> StreamOptions {
    match stream {
        StreamRequest::Exec(request) => request.options,
        StreamRequest::Attach(request) => request.options,
        StreamRequest::PortForward(_) => StreamOptions::default(),
    }
}

async fn run_process(backend: Arc<dyn StreamBackend>, stream: StreamRequest, client: Client) {
    match stream {
        StreamRequest::Exec(request) => session::exec(backend, request, client).await,
        StreamRequest::Attach(request) => session::attach(backend, request, client).await,
        // It has no process.
        StreamRequest::PortForward(_) => {}
    }
}
