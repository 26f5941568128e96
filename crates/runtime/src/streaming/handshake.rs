//! Upgrades of HTTP connections.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::Request;
use ring::digest;

/// Lists the protocols of a SPDY connection.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_STREAM_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
/// Defined in RFC 6455.
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The protocol that a client wants to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    Spdy,
    WebSocket,
}

/// A request that cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
    pub(super) headers: Option<HeaderMap>,
}

pub(super) fn refuse(status: StatusCode, text: &'static str) -> Refusal {
    Refusal { status, text, headers: None }
}

pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<Upgrade> {
    let connection = values(headers, &header::CONNECTION);
    if !connection.iter().any(|value| value.eq_ignore_ascii_case("upgrade")) {
        return None;
    }
    let upgrade = values(headers, &header::UPGRADE);
    let asks = |name: &str| upgrade.iter().any(|value| value.eq_ignore_ascii_case(name));
    if asks("websocket") { Some(Upgrade::WebSocket) } else { asks("SPDY/3.1").then_some(Upgrade::Spdy) }
}

/// The headers of the answer to a SPDY client, and the first of the client's protocols that is one of `known`.
pub(super) fn accept_spdy(
    headers: &HeaderMap,
    known: &[&'static str],
) -> Result<(HeaderMap, &'static str), Refusal> {
    let offered = values(headers, &STREAM_PROTOCOL);
    if offered.is_empty() {
        return Err(refuse(StatusCode::BAD_REQUEST, "X-Stream-Protocol-Version header is required"));
    }
    let chosen = offered.iter().find_map(|name| known.iter().find(|known| *known == name));
    let mut answer = HeaderMap::new();
    let Some(chosen) = chosen else {
        for name in known {
            answer.append(ACCEPTED_STREAM_PROTOCOLS, HeaderValue::from_static(name));
        }
        let text = "none of the stream protocols is supported";
        return Err(Refusal { status: StatusCode::FORBIDDEN, text, headers: Some(answer) });
    };
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    answer.insert(STREAM_PROTOCOL, HeaderValue::from_static(chosen));
    Ok((answer, chosen))
}

/// The subprotocols that a WebSocket client offers, in its order.
pub(super) fn websocket_protocols(headers: &HeaderMap) -> Vec<&str> {
    values(headers, &header::SEC_WEBSOCKET_PROTOCOL)
}

/// The headers of the answer to a WebSocket client.
pub(super) fn accept_websocket<B>(
    request: &Request<B>,
    protocol: &'static str,
) -> Result<HeaderMap, Refusal> {
    let text = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let version = text(header::SEC_WEBSOCKET_VERSION);
    let (Some(key), Some("13"), &Method::GET) = (text(header::SEC_WEBSOCKET_KEY), version, request.method())
    else {
        let text = "a WebSocket begins with GET, has version 13 and a key";
        return Err(refuse(StatusCode::BAD_REQUEST, text));
    };
    // The protocol requires SHA-1; it protects nothing here.
    let digest =
        digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{WEBSOCKET_GUID}").as_bytes());
    let accept = HeaderValue::from_str(&STANDARD.encode(digest))
        .map_err(|_| refuse(StatusCode::BAD_REQUEST, "the WebSocket key is not valid"))?;
    let mut answer = HeaderMap::new();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if !protocol.is_empty() {
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Ok(answer)
}

/// The elements of a header, which may be repeated and may contain lists.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let lists = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|value| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(HeaderName, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn upgrade_is_recognised_in_lists_and_any_case() {
        let of = |connection, upgrade| {
            upgrade_of(&headers(&[(header::CONNECTION, connection), (header::UPGRADE, upgrade)]))
        };
        assert_eq!(of("keep-alive, Upgrade", "WebSocket"), Some(Upgrade::WebSocket));
        assert_eq!(of("upgrade", "spdy/3.1"), Some(Upgrade::Spdy));
        assert_eq!(of("close", "SPDY/3.1"), None);
        assert_eq!(of("upgrade", "h2c"), None);
    }

    #[test]
    fn first_known_spdy_protocol_of_the_client_is_chosen() {
        let known = &["v4.channel.k8s.io", "channel.k8s.io"];
        let offer = |value| accept_spdy(&headers(&[(STREAM_PROTOCOL, value)]), known);
        assert_eq!(offer("v9, channel.k8s.io, v4.channel.k8s.io").unwrap().1, "channel.k8s.io");
        let refused = offer("v9").unwrap_err();
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        assert_eq!(refused.headers.unwrap().get_all(ACCEPTED_STREAM_PROTOCOLS).iter().count(), 2);
        assert_eq!(accept_spdy(&HeaderMap::new(), known).unwrap_err().status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn accept_header_is_that_of_rfc_6455() {
        let request = Request::get("/")
            .header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==")
            .header(header::SEC_WEBSOCKET_VERSION, "13");
        let answer = accept_websocket(&request.body(()).unwrap(), "v4.channel.k8s.io").unwrap();
        assert_eq!(answer[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(accept_websocket(&Request::post("/").body(()).unwrap(), "").is_err());
    }
}
