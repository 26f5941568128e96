//! A WebSocket whose streams can be closed one by one, towards a runtime that speaks SPDY.

mod session;

use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use decide::streaming::STREAM_CLOSE_PROTOCOL;
use model::StreamChoice;

use super::backend::{self, Answer, PROTOCOL_VERSION, failed};
use super::handshake::{Handshake, socket};
use super::raw::switching;
use super::{Refusal, Sessions};
use session::Session;

/// The newest protocol that runtimes speak.
const RUNTIME_PROTOCOL: &str = "v4.channel.k8s.io";

/// Opens the streams at the runtime and, if it agrees, translates.
pub(super) async fn start(
    sessions: &Sessions,
    url: &str,
    streams: StreamChoice,
    mut request: Request,
) -> Result<Response, Refusal> {
    let handshake = Handshake::read(&mut request)?;
    let headers = backend::spdy(&[RUNTIME_PROTOCOL.to_owned()]);
    let (head, runtime) = match backend::open(sessions, url, Method::POST, headers).await? {
        Answer::Refused(answer) => return Ok(answer),
        Answer::Upgraded(head, runtime) => (head, runtime),
    };
    if head.headers.get(PROTOCOL_VERSION).is_none_or(|chosen| chosen != RUNTIME_PROTOCOL) {
        return Err(failed(format!("the runtime's streaming server does not speak {RUNTIME_PROTOCOL}")));
    }
    let session = Session::open(runtime, streams).await;
    let session = session.map_err(|error| failed(format!("open streams at the runtime: {error}")))?;
    let (headers, upgrade) = handshake.answer(Some(STREAM_CLOSE_PROTOCOL));
    sessions.start(async move {
        if let Some(client) = socket(upgrade).await {
            session.run(client).await;
        }
    });
    Ok(switching(headers))
}
