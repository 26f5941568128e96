//! Responses that several handlers send.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

/// The body of paths that `enableDebuggingHandlers: false` switches off.
pub(crate) const DEBUGGING_DISABLED: &str = "Debug endpoints are disabled.";

pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A value as one line of a stream.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<Bytes> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line.into())
}

/// The same text as Go's HTTP server.
pub(crate) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

pub(crate) async fn method_not_allowed() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed").into_response()
}

/// The response of a path that the configuration switches off.
pub(crate) fn disabled(text: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, format!("{text}\n")).into_response()
}
