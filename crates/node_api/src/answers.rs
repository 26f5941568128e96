//! Answers that several paths give.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// What paths say that `enableDebuggingHandlers` switches off.
pub(crate) const DEBUGGING_DISABLED: &str = "Debug endpoints are disabled.";

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A value as one line of a stream.
pub(crate) fn json_lines(value: &Value) -> Bytes {
    Bytes::from(format!("{value}\n"))
}

/// Nothing is there, in Go's words.
pub(crate) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Not with this method.
pub(crate) async fn method_not_allowed() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed").into_response()
}

/// Switched off by the configuration.
pub(crate) fn disabled(text: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, format!("{text}\n")).into_response()
}
