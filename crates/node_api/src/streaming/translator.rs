//! Translates between a WebSocket with half-close (v5) and the SPDY of the runtime (v4).

mod session;

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use decide::http::streaming::STREAM_CLOSE_PROTOCOL;
use model::StreamChoice;

use super::backend::{self, PROTOCOL_VERSION, UpgradeResult, failed};
use super::handshake::{Handshake, socket};
use super::passthrough::switching_protocols;
use super::{ErrorResponse, StreamSessions};
use session::Session;

/// The newest protocol that runtimes support.
const RUNTIME_PROTOCOL: &str = "v4.channel.k8s.io";

/// Opens the streams at the runtime and, if it accepts them, starts the translation.
pub(super) async fn start(
    sessions: &StreamSessions,
    url: &str,
    streams: StreamChoice,
    mut request: Request,
) -> Result<Response, ErrorResponse> {
    let handshake = Handshake::read(&mut request)?;
    let headers = backend::spdy_headers(&[RUNTIME_PROTOCOL.to_owned()]);
    let (head, runtime) = match backend::open(sessions, url, Method::POST, headers).await? {
        UpgradeResult::Rejected(response) => return Ok(response),
        UpgradeResult::Upgraded(head, runtime) => (head, runtime),
    };
    if head.headers.get(PROTOCOL_VERSION).is_none_or(|chosen| chosen != RUNTIME_PROTOCOL) {
        return Err(failed(format!("the runtime's streaming server does not support {RUNTIME_PROTOCOL}")));
    }
    let session = Session::open(runtime, streams).await;
    let session = session.map_err(|error| failed(format!("open streams at the runtime: {error}")))?;
    let (headers, upgrade) = handshake.respond(Some(STREAM_CLOSE_PROTOCOL));
    sessions.start(async move {
        if let Some(client) = socket(upgrade).await {
            session.run(client).await;
        }
    });
    Ok(switching_protocols(headers))
}
