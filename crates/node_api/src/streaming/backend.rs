//! The connection to the runtime's streaming server.

use std::time::Duration;

use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{ErrorResponse, StreamSessions};

const UPGRADE_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers that are meant for the agent, or describe the client's connection.
const STRIPPED_HEADERS: [HeaderName; 6] = [
    header::HOST,
    header::AUTHORIZATION,
    header::COOKIE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::EXPECT,
];
/// Lists the protocols of a SPDY connection.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

pub(super) type Connection = TokioIo<hyper::upgrade::Upgraded>;

pub(super) enum UpgradeResult {
    /// The head of the response and the connection.
    Upgraded(Parts, Connection),
    /// The runtime's error response, to be passed on unchanged.
    Rejected(Response<Body>),
}

/// The headers of a client's request that the runtime receives.
pub(super) fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in STRIPPED_HEADERS {
        headers.remove(name);
    }
    headers
}

/// The headers of an upgrade to SPDY.
pub(super) fn spdy_headers(protocols: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for value in protocols.iter().filter_map(|protocol| HeaderValue::from_str(protocol).ok()) {
        headers.append(PROTOCOL_VERSION, value);
    }
    headers
}

/// Requests an upgrade at the URL.
pub(super) async fn open(
    sessions: &StreamSessions,
    url: &str,
    method: Method,
    headers: HeaderMap,
) -> Result<UpgradeResult, ErrorResponse> {
    let request = tokio::time::timeout(UPGRADE_TIMEOUT, send_request(sessions, url, method, headers));
    let timed_out =
        || failed(format!("the runtime's streaming server did not answer within {UPGRADE_TIMEOUT:?}"));
    let mut response = request.await.map_err(|_| timed_out())??;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded
            .map_err(|error| failed(format!("upgrade at the runtime's streaming server: {error}")))?;
        return Ok(UpgradeResult::Upgraded(response.into_parts().0, TokioIo::new(upgraded)));
    }
    if response.status().as_u16() < 400 {
        // Includes redirects: the agent does not follow the runtime to other servers.
        let code = response.status().as_u16();
        return Err(failed(format!("invalid upgrade response: status code {code}")));
    }
    let (mut parts, body) = response.into_parts();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::UPGRADE] {
        parts.headers.remove(name);
    }
    Ok(UpgradeResult::Rejected(Response::from_parts(parts, Body::new(body))))
}

async fn send_request(
    sessions: &StreamSessions,
    url: &str,
    method: Method,
    headers: HeaderMap,
) -> Result<Response<hyper::body::Incoming>, ErrorResponse> {
    let unusable = || failed(format!("the runtime returned an unusable streaming URL: {url:?}"));
    let uri: Uri = url.parse().map_err(|_| unusable())?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(unusable)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await;
    let unreachable =
        |error: &dyn std::fmt::Display| failed(format!("reach the runtime's streaming server: {error}"));
    let stream = stream.map_err(|error| unreachable(&error))?;
    // Keystrokes must not wait for more data.
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
    sessions.start(async move {
        // An error also appears as the error of the request or of the upgraded connection.
        let _ = connection.with_upgrades().await;
    });
    let target = uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().map_err(|_| unusable())?;
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| unusable())?;
    request.headers_mut().insert(header::HOST, host);
    sender.send_request(request).await.map_err(|error| unreachable(&error))
}

pub(super) fn failed(problem: String) -> ErrorResponse {
    ErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, problem)
}
