//! The server's side of a WebSocket's beginning.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio_websockets::{Limits, ServerBuilder, WebSocketStream};

use super::backend::Connection;
use super::{Refusal, bad_request};

/// The largest message, as upstream's server has it.
const LARGEST_MESSAGE: usize = 32 << 20;
/// A constant of the protocol.
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A WebSocket of a client.
pub(super) type WebSocket = WebSocketStream<Connection>;

/// A client's WebSocket that was not answered yet.
pub(super) struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Checks what the client has sent.
    pub(super) fn read(request: &mut Request) -> Result<Self, Refusal> {
        let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if *request.method() != Method::GET || text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(bad_request("a WebSocket begins with GET and has version 13".to_owned()));
        }
        let key = text(header::SEC_WEBSOCKET_KEY);
        let key = key.ok_or_else(|| bad_request("a WebSocket needs a Sec-WebSocket-Key".to_owned()))?;
        let accept = accept(key).ok_or_else(|| bad_request("bad Sec-WebSocket-Key".to_owned()))?;
        Ok(Self { accept, upgrade: hyper::upgrade::on(request) })
    }

    /// The headers of the answer and the socket to come.
    pub(super) fn answer(self, protocol: Option<&str>) -> (HeaderMap, OnUpgrade) {
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

/// The socket, once the answer is on its way.
pub(super) async fn socket(upgrade: OnUpgrade) -> Option<WebSocket> {
    match upgrade.await {
        Ok(upgraded) => {
            let limits = Limits::default().max_payload_len(Some(LARGEST_MESSAGE));
            Some(ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded)))
        }
        Err(error) => {
            tracing::debug!(%error, "a client left before its stream began");
            None
        }
    }
}

fn accept(key: &str) -> Option<HeaderValue> {
    use base64::Engine;
    let salted = format!("{key}{SALT}");
    // The protocol's choice; nothing is kept secret by it.
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, salted.as_bytes());
    HeaderValue::from_str(&base64::engine::general_purpose::STANDARD.encode(digest)).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_answer_proves_that_the_key_was_read() {
        let accept = super::accept("dGhlIHNhbXBsZSBub25jZQ==").unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
