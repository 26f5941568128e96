//! The service under a client.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use kube::client::Body;
use ports::request_meter::{RequestMeter, SentRequest};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::answer::{Answer, AnswerError, Bound, Tally};
use super::connections::Connections;
use super::turnstile::{Priority, Turnstile};
use crate::identity::CurrentCertificate;

/// Times that a request is sent again because the server asked for it, as the Go client.
const ATTEMPTS: u32 = 10;
/// A server that wants to be left alone for longer is asked again all the same.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From sending it to the end of its answer. A watch must have begun by then.
    pub(crate) answer: Duration,
    /// With all pauses that the server asked for.
    pub(crate) whole: Duration,
}

/// One lane. Requests of a lane with a turnstile wait there for their turn, watches excepted.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) connections: Connections,
    pub(crate) turnstile: Option<(Arc<Turnstile>, Priority)>,
    pub(crate) certificate: Option<CurrentCertificate>,
    pub(crate) patience: Patience,
    pub(crate) meter: Arc<dyn RequestMeter>,
}

impl Service<Request<Body>> for Lane {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Answer>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let lane = self.clone();
        Box::pin(async move { lane.send(request).await })
    }
}

impl Lane {
    async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let (method, host) = (request.method().clone(), host(&request));
        let sent = SentRequest { method: method.as_str(), host: &host };
        let bytes = request.body().size_hint().lower();
        let (begun, watch) = (Instant::now(), is_watch(&request));
        let response = self.send_until_taken(request, sent).await;
        if !watch {
            self.meter.ended(sent, begun.elapsed(), bytes);
            let told = Tally::new(self.meter.clone(), method.clone(), host.clone());
            return response.map(|response| response.map(|answer| answer.told_to(told)));
        }
        response
    }

    async fn send_until_taken(
        &self,
        mut request: Request<Body>,
        sent: SentRequest<'_>,
    ) -> Result<Response<Answer>, BoxError> {
        let last = Instant::now() + self.patience.whole;
        let mut attempt = 1;
        loop {
            let again = copy(&request).filter(|_| attempt < ATTEMPTS);
            let response = self.attempt(request, sent).await;
            self.meter.answered(sent, response.as_ref().ok().map(|response| response.status().as_u16()));
            let response = response?;
            let Some((pause, again)) = pause_before_retry(&response).zip(again) else { return Ok(response) };
            if Instant::now() + pause > last {
                return Ok(response);
            }
            self.meter.repeated(sent, response.status().as_u16());
            drop(response);
            tokio::time::sleep(pause).await;
            request = again;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        request: Request<Body>,
        sent: SentRequest<'_>,
    ) -> Result<Response<Answer>, BoxError> {
        let watch = is_watch(&request);
        if let Some((turnstile, priority)) = self.turnstile.as_ref().filter(|_| !watch) {
            let begun = Instant::now();
            turnstile.pass(*priority).await;
            self.meter.waited(sent, begun.elapsed());
        }
        let allowed = self.patience.answer;
        let at = Instant::now() + allowed;
        if let Some(certificate) = &self.certificate {
            // Nobody answers a request without one, and the server's log would show it as refused.
            let ready = tokio::time::timeout_at(at, certificate.ready()).await;
            ready.map_err(|_| certificate.missing())?;
        }
        let mut under_way = self.connections.send(request);
        let response = tokio::time::timeout_at(at, &mut under_way.response).await;
        let response = response.map_err(|_| AnswerError::TooSlow(allowed))??;
        let bound = if watch && response.status().is_success() {
            Bound::Retired(under_way.retired())
        } else {
            Bound::Deadline { at, allowed }
        };
        Ok(response.map(|body| Answer::new(body, bound, under_way.stream)))
    }
}

/// The request once more, if its body can be had twice.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut again = Request::new(request.body().try_clone()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// The server's name with its port.
fn host(request: &Request<Body>) -> String {
    request.uri().authority().map(ToString::to_string).unwrap_or_default()
}

fn is_watch(request: &Request<Body>) -> bool {
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// How long the server wants to be left alone, within reason. A little more, so that not all come back at once.
fn pause_before_retry<T>(response: &Response<T>) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    let pause = Duration::from_secs(seconds).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    let spread = RandomState::new().hash_one(seconds) % 100;
    Some(pause + pause * u32::try_from(spread).unwrap_or_default() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_known_by_their_query() {
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
    fn pauses_are_the_servers_within_bounds() {
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
            let pause = pause_before_retry(&response.body(()).unwrap()).map(|pause| pause.as_secs_f64());
            match (&expected, pause) {
                (None, None) => {}
                (Some(range), Some(pause)) if range.contains(&pause) => {}
                _ => panic!("{code} {header:?}: {pause:?}, not in {expected:?}"),
            }
        }
    }
}
