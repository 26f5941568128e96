//! The tower service below an API client: rate limit, timeouts and retries on `Retry-After`.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use kube::client::Body;
use ports::telemetry::request_meter::{RequestMeter, SentRequest};
use timing::{jitter, random};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::connections::Connections;
use super::priority_rate_limiter::{Priority, PriorityRateLimiter};
use super::response_body::{BodyLimit, ByteCounter, ResponseBody, ResponseError};
use crate::identity::CurrentCertificate;

/// How often a request is sent if the server responds with `Retry-After`, same as client-go.
const MAX_ATTEMPTS: u32 = 10;
/// Caps the `Retry-After` of the server.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Largest random part of a retry delay, as a fraction of it.
const RETRY_JITTER: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimeouts {
    /// Of one attempt, from sending the request to the end of the response body. For a watch, to the response headers.
    pub(crate) response: Duration,
    /// Of all attempts, with the delays between them.
    pub(crate) total: Duration,
}

/// Sends the requests of one client. Watches bypass the rate limiter.
#[derive(Clone)]
pub(crate) struct RequestService {
    pub(crate) connections: Connections,
    pub(crate) rate_limiter: Option<(Arc<PriorityRateLimiter>, Priority)>,
    pub(crate) certificate: Option<CurrentCertificate>,
    pub(crate) timeouts: RequestTimeouts,
    pub(crate) meter: Arc<dyn RequestMeter>,
}

impl Service<Request<Body>> for RequestService {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.send(request).await })
    }
}

impl RequestService {
    async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (method, host) = (request.method().clone(), host(&request));
        let sent = SentRequest { method: method.as_str(), host: &host };
        let bytes = request.body().size_hint().lower();
        let (started_at, watch) = (Instant::now(), is_watch(&request));
        let response = self.send_with_retries(request, sent).await;
        if !watch {
            self.meter.ended(sent, started_at.elapsed(), bytes);
            let counter = ByteCounter::new(self.meter.clone(), method.clone(), host.clone());
            return response.map(|response| response.map(|body| body.counted_by(counter)));
        }
        response
    }

    async fn send_with_retries(
        &self,
        mut request: Request<Body>,
        sent: SentRequest<'_>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let deadline = Instant::now() + self.timeouts.total;
        let mut attempt = 1;
        loop {
            let retry = try_clone(&request).filter(|_| attempt < MAX_ATTEMPTS);
            let response = self.attempt(request, sent).await;
            self.meter.answered(sent, response.as_ref().ok().map(|response| response.status().as_u16()));
            let response = response?;
            let Some((delay, retry)) = retry_delay(&response).zip(retry) else { return Ok(response) };
            if Instant::now() + delay > deadline {
                return Ok(response);
            }
            self.meter.repeated(sent, response.status().as_u16());
            drop(response);
            tokio::time::sleep(delay).await;
            request = retry;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        request: Request<Body>,
        sent: SentRequest<'_>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let watch = is_watch(&request);
        if let Some((rate_limiter, priority)) = self.rate_limiter.as_ref().filter(|_| !watch) {
            let started_at = Instant::now();
            rate_limiter.acquire(*priority).await;
            self.meter.waited(sent, started_at.elapsed());
        }
        let timeout = self.timeouts.response;
        let deadline = Instant::now() + timeout;
        if let Some(certificate) = &self.certificate {
            // Without a certificate the server would reject the request and log a failed authentication.
            let ready = tokio::time::timeout_at(deadline, certificate.ready()).await;
            ready.map_err(|_| certificate.missing())?;
        }
        let mut in_flight = self.connections.send(request);
        let response = tokio::time::timeout_at(deadline, &mut in_flight.response).await;
        let response = response.map_err(|_| ResponseError::Timeout(timeout))??;
        let limit = if watch && response.status().is_success() {
            BodyLimit::Retired(in_flight.retired())
        } else {
            BodyLimit::deadline(deadline, timeout)
        };
        Ok(response.map(|body| ResponseBody::new(body, limit, in_flight.stream)))
    }
}

/// Copies a request, unless its body is a stream.
fn try_clone(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Returns `host:port` of the server.
fn host(request: &Request<Body>) -> String {
    request.uri().authority().map(ToString::to_string).unwrap_or_default()
}

fn is_watch(request: &Request<Body>) -> bool {
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// Returns the server's `Retry-After`, clamped, plus up to 10 % jitter so that nodes do not retry at the same time.
fn retry_delay<T>(response: &Response<T>) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    let delay = Duration::from_secs(seconds).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
    Some(jitter(delay, RETRY_JITTER, random()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_watch_requests_by_query() {
        for (uri, expected) in [
            ("/api/v1/pods?watch=true&timeoutSeconds=290", true),
            ("/api/v1/pods?&fieldSelector=spec.nodeName%3Dn&watch=true", true),
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/pods?fieldSelector=metadata.name%3Dwatch=true2", false),
            ("/api/v1/pods", false),
        ] {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            assert_eq!(is_watch(&request), expected, "{uri}");
        }
    }

    #[test]
    fn clamps_retry_after_header() {
        for (code, header, expected) in [
            (429, Some("2"), Some(2.0..2.2)),
            (503, Some("1"), Some(1.0..1.1)),
            (429, Some("0"), Some(0.1..0.11)),
            (429, Some("100000"), Some(30.0..33.0)),
            (429, None, None),
            (429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
            (500, Some("1"), None),
            (200, Some("1"), None),
        ] {
            let mut response = Response::builder().status(code);
            if let Some(value) = header {
                response = response.header(RETRY_AFTER, value);
            }
            let delay = retry_delay(&response.body(()).unwrap()).map(|delay| delay.as_secs_f64());
            match (&expected, delay) {
                (None, None) => {}
                (Some(range), Some(delay)) if range.contains(&delay) => {}
                _ => panic!("{code} {header:?}: {delay:?}, not in {expected:?}"),
            }
        }
    }
}
