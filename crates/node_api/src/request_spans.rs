//! A span for each request that was let in, for who collects them.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use ports::trace::TARGET;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// Whose trace a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traces {
    /// The caller's, if it names one: it was recognised.
    Continued,
    /// One of its own: anybody may ask.
    Own,
}

/// Wraps a request into its span, until the head of its answer is there.
pub(crate) async fn trace(State(traces): State<Traces>, request: Request, next: Next) -> Response {
    let span = span_of(&request, traces);
    let answer = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", answer.status().as_u16());
    if answer.status() >= StatusCode::INTERNAL_SERVER_ERROR {
        span.record("error", "");
    }
    answer
}

fn span_of(request: &Request, traces: Traces) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let span = tracing::info_span!(
        target: TARGET,
        "request",
        otel.name = route,
        otel.kind = "server",
        otel.parent = caller(request.headers(), traces),
        http.request.method = request.method().as_str(),
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        error = Empty
    );
    span
}

fn caller(headers: &HeaderMap, traces: Traces) -> Option<&str> {
    match traces {
        Traces::Continued => headers.get("traceparent")?.to_str().ok(),
        Traces::Own => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_recognised_continues_a_trace() {
        let mut headers = HeaderMap::new();
        assert_eq!(caller(&headers, Traces::Continued), None);
        headers.insert("traceparent", "00-x-y-01".parse().unwrap());
        assert_eq!(caller(&headers, Traces::Continued), Some("00-x-y-01"));
        assert_eq!(caller(&headers, Traces::Own), None);
    }
}
