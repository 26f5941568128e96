//! Responses that the proxy generates, and modifications of real responses.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::json;
use tokio_stream::StreamExt;

pub(super) fn answer(code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn status(code: u16, retry_after: Option<u32>) -> serde_json::Value {
    let reason = match code {
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": "injected by the test", "details": {"retryAfterSeconds": retry_after.unwrap_or(0)}})
}

pub(super) fn refused(code: u16, retry_after: Option<u32>) -> Response {
    let known = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = answer(known, Body::from(status(code, retry_after).to_string()));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn expired() -> Response {
    let event = json!({"type": "ERROR", "object": status(410, None)});
    answer(StatusCode::OK, Body::from(format!("{event}\n")))
}

/// Ends the body after this many bytes, whether or not more would follow.
pub(super) fn cut(body: Body, bytes: usize) -> Body {
    let parts = body.into_data_stream();
    Body::from_stream(futures::stream::unfold((parts, bytes), async |(mut parts, left)| {
        if left == 0 {
            return None;
        }
        let part = parts.next().await?.map(|part| part.slice(..part.len().min(left)));
        let passed = part.as_ref().map_or(left, Bytes::len);
        Some((part, (parts, left - passed)))
    }))
}

pub(super) fn slow(body: Body, pause: Duration) -> Body {
    Body::from_stream(body.into_data_stream().then(move |part| async move {
        tokio::time::sleep(pause).await;
        part
    }))
}
