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

use super::{Refusal, Sessions};

/// How long the runtime may take to agree.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is the client's business with us, or describes its own connection.
const NOT_PASSED_ON: [HeaderName; 6] = [
    header::HOST,
    header::AUTHORIZATION,
    header::COOKIE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::EXPECT,
];
/// Which protocols a SPDY connection is to carry.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// An upgraded connection.
pub(super) type Connection = TokioIo<hyper::upgrade::Upgraded>;

/// What the runtime's server said.
pub(super) enum Answer {
    /// It agreed; the head of its answer and the connection.
    Upgraded(Parts, Connection),
    /// It refused; to be passed on as it is.
    Refused(Response<Body>),
}

/// The headers of a client's request as far as the runtime needs them.
pub(super) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in NOT_PASSED_ON {
        headers.remove(name);
    }
    headers
}

/// Headers that ask for SPDY with these protocols.
pub(super) fn spdy(protocols: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for value in protocols.iter().filter_map(|protocol| HeaderValue::from_str(protocol).ok()) {
        headers.append(PROTOCOL_VERSION, value);
    }
    headers
}

/// Asks the server at a URL to upgrade.
pub(super) async fn open(
    sessions: &Sessions,
    url: &str,
    method: Method,
    headers: HeaderMap,
) -> Result<Answer, Refusal> {
    let asked = tokio::time::timeout(PATIENCE, ask(sessions, url, method, headers));
    let late = || failed(format!("the runtime's streaming server did not answer within {PATIENCE:?}"));
    let mut response = asked.await.map_err(|_| late())??;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded
            .map_err(|error| failed(format!("upgrade at the runtime's streaming server: {error}")))?;
        return Ok(Answer::Upgraded(response.into_parts().0, TokioIo::new(upgraded)));
    }
    if response.status().as_u16() < 400 {
        // Redirects among them: the runtime has no business sending us elsewhere.
        let code = response.status().as_u16();
        return Err(failed(format!("invalid upgrade response: status code {code}")));
    }
    let (mut parts, body) = response.into_parts();
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::UPGRADE] {
        parts.headers.remove(name);
    }
    Ok(Answer::Refused(Response::from_parts(parts, Body::new(body))))
}

async fn ask(
    sessions: &Sessions,
    url: &str,
    method: Method,
    headers: HeaderMap,
) -> Result<Response<hyper::body::Incoming>, Refusal> {
    let bad = || failed(format!("the runtime gave a URL for streaming that cannot be used: {url:?}"));
    let uri: Uri = url.parse().map_err(|_| bad())?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http")).ok_or_else(bad)?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await;
    let reach =
        |error: &dyn std::fmt::Display| failed(format!("reach the runtime's streaming server: {error}"));
    let stream = stream.map_err(|error| reach(&error))?;
    // Keystrokes are not to wait for more of them.
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| reach(&error))?;
    sessions.start(async move {
        // Its failure is the failure of the request or of the upgraded connection.
        let _ = connection.with_upgrades().await;
    });
    let target = uri.path_and_query().map_or("/", axum::http::uri::PathAndQuery::as_str);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().map_err(|_| bad())?;
    *request.headers_mut() = headers;
    let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad())?;
    request.headers_mut().insert(header::HOST, host);
    sender.send_request(request).await.map_err(|error| reach(&error))
}

pub(super) fn failed(problem: String) -> Refusal {
    Refusal(StatusCode::INTERNAL_SERVER_ERROR, problem)
}
