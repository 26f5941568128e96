//! The server side of a WebSocket handshake.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio_websockets::{Limits, ServerBuilder, WebSocketStream};

use super::backend::Connection;
use super::{ErrorResponse, bad_request};

/// In bytes, as upstream.
const MAX_MESSAGE: usize = 32 << 20;
/// Defined in RFC 6455.
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) type WebSocket = WebSocketStream<Connection>;

/// A handshake that the server has not answered yet.
pub(super) struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Validates the client's request.
    pub(super) fn read(request: &mut Request) -> Result<Self, ErrorResponse> {
        let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if *request.method() != Method::GET || text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(bad_request("a WebSocket begins with GET and has version 13".to_owned()));
        }
        let key = text(header::SEC_WEBSOCKET_KEY);
        let key = key.ok_or_else(|| bad_request("a WebSocket needs a Sec-WebSocket-Key".to_owned()))?;
        let accept = accept(key).ok_or_else(|| bad_request("bad Sec-WebSocket-Key".to_owned()))?;
        Ok(Self { accept, upgrade: hyper::upgrade::on(request) })
    }

    /// The headers of the response, and the future connection.
    pub(super) fn respond(self, protocol: Option<&str>) -> (HeaderMap, OnUpgrade) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        (headers, self.upgrade)
    }
}

/// Waits until the response was sent. `None` if the client disconnected before that.
pub(super) async fn socket(upgrade: OnUpgrade) -> Option<WebSocket> {
    match upgrade.await {
        Ok(upgraded) => {
            let limits = Limits::default().max_payload_len(Some(MAX_MESSAGE));
            Some(ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded)))
        }
        Err(error) => {
            tracing::debug!(%error, "client disconnected before its stream started");
            None
        }
    }
}

fn accept(key: &str) -> Option<HeaderValue> {
    use base64::Engine;
    let input = format!("{key}{WEBSOCKET_GUID}");
    // The protocol requires SHA-1; it protects nothing here.
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, input.as_bytes());
    HeaderValue::from_str(&base64::engine::general_purpose::STANDARD.encode(digest)).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn computes_accept_header_of_rfc_6455() {
        let accept = super::accept("dGhlIHNhbXBsZSBub25jZQ==").unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
