//! A trace span for each authorized request.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use ports::telemetry::trace::TARGET;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The parent of a request's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceParent {
    /// The span in the request's `traceparent` header. Only for authenticated clients.
    FromRequest,
    None,
}

/// Runs a request in its span, which ends with the head of the response.
pub(crate) async fn trace(State(parent): State<TraceParent>, request: Request, next: Next) -> Response {
    let span = span_of(&request, parent);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    if response.status() >= StatusCode::INTERNAL_SERVER_ERROR {
        span.record("error", "");
    }
    response
}

fn span_of(request: &Request, parent: TraceParent) -> Span {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let span = tracing::info_span!(
        target: TARGET,
        "request",
        otel.name = route,
        otel.kind = "server",
        otel.parent = trace_parent(request.headers(), parent),
        http.request.method = request.method().as_str(),
        http.route = route,
        url.path = request.uri().path(),
        http.response.status_code = Empty,
        error = Empty
    );
    span
}

fn trace_parent(headers: &HeaderMap, parent: TraceParent) -> Option<&str> {
    match parent {
        TraceParent::FromRequest => headers.get("traceparent")?.to_str().ok(),
        TraceParent::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_traceparent_of_unauthenticated_clients() {
        let mut headers = HeaderMap::new();
        assert_eq!(trace_parent(&headers, TraceParent::FromRequest), None);
        headers.insert("traceparent", "00-x-y-01".parse().unwrap());
        assert_eq!(trace_parent(&headers, TraceParent::FromRequest), Some("00-x-y-01"));
        assert_eq!(trace_parent(&headers, TraceParent::None), None);
    }
}
