use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, LOCATION, REFERER, TRAILER, USER_AGENT};
use http::header::{HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use ports::outbound::{HttpAnswer, HttpGet, OutboundError, Purpose, Scheme};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::dial;
use crate::go_format::system_error;
use crate::grpc::ConnectionTasks;
use crate::limit::within;
use crate::url::Url;

const MAX_BODY_BYTES: usize = 10 * 1024;
const MAX_REDIRECTS: usize = 10;

/// Sends a GET request and follows redirects.
pub(crate) async fn run(tls: &Arc<ClientConfig>, request: &HttpGet) -> Result<HttpAnswer, OutboundError> {
    let first = Url::from_spec(request.scheme, &request.host, request.port, &request.path);
    let headers =
        headers(request).map_err(|reason| OutboundError::Request(format!("Get \"{first}\": {reason}")))?;
    let mut progress = Progress { url: first, phase: Phase::Headers };
    let response = follow_redirects(tls, headers, &mut progress);
    let Some(limit) = request.limit else { return response.await };
    match within(limit, response).await {
        Some(result) => result,
        None => Err(match progress.phase {
            Phase::Headers => {
                let reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                OutboundError::Failed(format!("Get \"{}\": {reason}", progress.url))
            }
            Phase::Body => {
                let reason =
                    "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
                OutboundError::Body(reason.to_owned())
            }
        }),
    }
}

/// State of a request, for the timeout error.
struct Progress {
    url: Url,
    phase: Phase,
}

enum Phase {
    Headers,
    Body,
}

async fn follow_redirects(
    tls: &Arc<ClientConfig>,
    mut headers: HeaderMap,
    progress: &mut Progress,
) -> Result<HttpAnswer, OutboundError> {
    let first_host = progress.url.host.clone();
    let mut host = headers.remove(HOST);
    for hop in 0_usize.. {
        progress.phase = Phase::Headers;
        let url = progress.url.clone();
        let connection = connect(tls, &url).await?;
        let exchange =
            Exchange { url: &url, host: host.as_ref(), headers: &headers, hop, first_host: &first_host };
        match exchange.run(connection, &mut progress.phase).await? {
            ExchangeOutcome::Response(response) => return Ok(response),
            ExchangeOutcome::Redirect { to, keep_host } => {
                headers.remove(REFERER);
                let downgrade = url.scheme == Scheme::Https && to.scheme == Scheme::Http;
                if !downgrade && let Ok(referer) = HeaderValue::from_str(&url.to_string()) {
                    headers.insert(REFERER, referer);
                }
                if !keep_host {
                    host = None;
                }
                progress.url = to;
            }
        }
    }
    Err(failed(&progress.url, "stopped"))
}

enum ExchangeOutcome {
    Response(HttpAnswer),
    Redirect {
        to: Url,
        /// Whether the spec's `Host` header also applies to the new location: only if that is relative.
        keep_host: bool,
    },
}

enum Connection {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

async fn connect(tls: &Arc<ClientConfig>, url: &Url) -> Result<Connection, OutboundError> {
    let stream = dial(&url.host, url.port()).await.map_err(|message| failed(url, &message))?;
    if url.scheme == Scheme::Http {
        return Ok(Connection::Plain(stream));
    }
    let name = ServerName::try_from(url.host.clone())
        .map_err(|_| failed(url, &format!("invalid host name {:?}", url.host)))?;
    let stream = Box::pin(TlsConnector::from(Arc::clone(tls)).connect(name, stream)).await;
    let stream = stream.map_err(|error| {
        let tls_error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls_error {
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
                let reason = "http: server gave HTTP response to HTTPS client";
                OutboundError::PlainAnswer(format!("Get \"{url}\": {reason}"))
            }
            Some(rustls::Error::AlertReceived(alert)) => {
                failed(url, &format!("remote error: tls: {}", alert_text(*alert)))
            }
            Some(other) => failed(url, &format!("tls: {other}")),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => failed(url, "EOF"),
            None => failed(url, &system_error(&error)),
        }
    })?;
    Ok(Connection::Tls(Box::new(stream)))
}

fn alert_text(alert: rustls::AlertDescription) -> String {
    let name = format!("{alert:?}");
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// One request on one connection.
struct Exchange<'a> {
    url: &'a Url,
    host: Option<&'a HeaderValue>,
    headers: &'a HeaderMap,
    hop: usize,
    first_host: &'a str,
}

impl Exchange<'_> {
    async fn run(&self, connection: Connection, phase: &mut Phase) -> Result<ExchangeOutcome, OutboundError> {
        match connection {
            Connection::Plain(stream) => self.http1(TokioIo::new(stream), phase).await,
            Connection::Tls(stream) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let stream = TokioIo::new(*stream);
                if is_http2 {
                    Box::pin(self.http2(stream, phase)).await
                } else {
                    Box::pin(self.http1(stream, phase)).await
                }
            }
        }
    }

    async fn http1<I>(&self, io: I, phase: &mut Phase) -> Result<ExchangeOutcome, OutboundError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let handshake = hyper::client::conn::http1::Builder::new().title_case_headers(true).handshake(io);
        let (mut sender, connection) = handshake.await.map_err(|error| self.connection_error(&error))?;
        let response = sender.send_request(self.request(Version::HTTP_11)?);
        drive_connection(connection, self.read_response(response, phase)).await
    }

    async fn http2<I>(&self, io: I, phase: &mut Phase) -> Result<ExchangeOutcome, OutboundError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let tasks = ConnectionTasks::default();
        let handshake = hyper::client::conn::http2::handshake(tasks.clone(), io);
        let (mut sender, connection) = handshake.await.map_err(|error| self.connection_error(&error))?;
        let response = sender.send_request(self.request(Version::HTTP_2)?);
        let outcome = drive_connection(connection, self.read_response(response, phase)).await;
        drop(sender);
        tasks.finish().await;
        outcome
    }

    fn request(&self, version: Version) -> Result<Request<Empty<Bytes>>, OutboundError> {
        let url_host = HeaderValue::from_str(&self.url.authority());
        let host = match self.host {
            Some(host) => host.clone(),
            None => url_host.map_err(|_| failed(self.url, "invalid host"))?,
        };
        let path = self.url.path_and_query();
        let uri = if version == Version::HTTP_2 {
            let authority = host.to_str().unwrap_or_default();
            format!("{}://{authority}{path}", self.url.scheme.as_str())
        } else {
            path
        };
        let request = Request::get(uri).version(version).body(Empty::new());
        let mut request = request.map_err(|error| failed(self.url, &error.to_string()))?;
        let headers = request.headers_mut();
        headers.clone_from(self.headers);
        if version == Version::HTTP_11 {
            headers.insert(HOST, host);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(request)
    }

    async fn read_response(
        &self,
        response: impl Future<Output = hyper::Result<Response<Incoming>>>,
        phase: &mut Phase,
    ) -> Result<ExchangeOutcome, OutboundError> {
        let response = response.await.map_err(|error| self.connection_error(&error))?;
        if let Some(redirect) = self.redirect(&response)? {
            return Ok(redirect);
        }
        *phase = Phase::Body;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut content = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let reason = root_cause(&error);
                OutboundError::Body(if reason == "EOF" { "unexpected EOF".to_owned() } else { reason })
            })?;
            if let Some(data) = frame.data_ref() {
                let remaining = MAX_BODY_BYTES.saturating_sub(content.len());
                content.extend_from_slice(data.get(..remaining).unwrap_or(data));
            }
            if content.len() >= MAX_BODY_BYTES {
                break;
            }
        }
        Ok(ExchangeOutcome::Response(HttpAnswer { status, body: content }))
    }

    fn redirect(&self, response: &Response<Incoming>) -> Result<Option<ExchangeOutcome>, OutboundError> {
        if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|location| !location.is_empty()) else { return Ok(None) };
        let Some(to) = self.url.follow(location) else {
            return Err(failed(self.url, &format!("failed to parse Location header {location:?}")));
        };
        if !to.host.eq_ignore_ascii_case(self.first_host) {
            return Ok(None);
        }
        if self.hop + 1 >= MAX_REDIRECTS {
            return Err(OutboundError::Failed(format!(
                "Get \"{location}\": stopped after {MAX_REDIRECTS} redirects"
            )));
        }
        let keep_host = !location.contains("//");
        Ok(Some(ExchangeOutcome::Redirect { to, keep_host }))
    }

    fn connection_error(&self, error: &hyper::Error) -> OutboundError {
        if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            return failed(self.url, "EOF");
        }
        if error.is_parse() {
            let reason = "net/http: HTTP/1.x transport connection broken: malformed HTTP response";
            return failed(self.url, reason);
        }
        failed(self.url, &root_cause(error))
    }
}

/// Polls `connection` until `exchange` is complete.
pub(crate) async fn drive_connection<T>(connection: impl Future, exchange: impl Future<Output = T>) -> T {
    let mut connection = pin!(connection);
    let mut exchange = pin!(exchange);
    let mut open = true;
    poll_fn(|context| {
        if open && connection.as_mut().poll(context).is_ready() {
            open = false;
        }
        match exchange.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(done),
            // The exchange may have queued work for the connection.
            Poll::Pending if open && connection.as_mut().poll(context).is_ready() => {
                open = false;
                exchange.as_mut().poll(context)
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Formats the root cause of an error.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<std::io::Error>() {
        Some(io) if io.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Some(io) => format!("read: {}", system_error(io)),
        None => cause.to_string(),
    }
}

fn failed(url: &Url, reason: &str) -> OutboundError {
    OutboundError::Failed(format!("Get \"{url}\": {reason}"))
}

/// Returns the headers of the spec and the defaults, including `Host` if the spec has it.
fn headers(request: &HttpGet) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let key: HeaderName =
            name.parse().map_err(|_| format!("net/http: invalid header field name {name:?}"))?;
        // The HTTP connection sets these.
        if [CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER, CONNECTION].contains(&key) {
            continue;
        }
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("net/http: invalid header field value for {name:?}"))?;
        headers.append(key, value);
    }
    let agent = match request.purpose {
        Purpose::Probe => "kube-probe/1.36",
        Purpose::Hook => "kube-lifecycle/1.36",
    };
    for (name, default) in [(USER_AGENT, agent), (ACCEPT, "*/*")] {
        match headers.get(&name) {
            None => {
                headers.insert(name, HeaderValue::from_static(default));
            }
            Some(first) if first.is_empty() => {
                headers.remove(name);
            }
            Some(_) => {}
        }
    }
    if headers.get(HOST).is_some_and(HeaderValue::is_empty) {
        headers.remove(HOST);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
