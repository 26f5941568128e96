//! Timeouts of requests, and errors of the `kube` crate as [`ApiError`].

use std::time::Duration;

use kube::core::Status;
use ports::api::{ApiError, ApiErrorKind};

/// Caps `retryAfterSeconds`, so that one faulty response cannot silence the node for years.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Fails with [`ApiErrorKind::Unreachable`] after [`REQUEST_TIMEOUT`].
pub(crate) async fn with_deadline<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    let seconds = REQUEST_TIMEOUT.as_secs();
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(response) => response.map_err(api_error),
        Err(_) => Err(failure(
            ApiErrorKind::Unreachable,
            format!("no response from the API server within {seconds} s"),
        )),
    }
}

pub(crate) fn api_error(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => status_error(&status),
        other => failure(ApiErrorKind::Unreachable, with_causes(&other)),
    }
}

/// An error without a time to retry after.
pub(crate) fn failure(kind: ApiErrorKind, message: impl Into<String>) -> ApiError {
    ApiError { kind, message: message.into(), retry_after: None }
}

pub(crate) fn status_error(status: &Status) -> ApiError {
    let retry_after =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|after| *after > 0);
    ApiError {
        kind: kind(status.code, &status.reason),
        message: status.message.clone(),
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into()).min(MAX_RETRY_AFTER)),
    }
}

fn kind(code: u16, reason: &str) -> ApiErrorKind {
    match (code, reason) {
        (404, _) => ApiErrorKind::NotFound,
        (409, "AlreadyExists") => ApiErrorKind::AlreadyExists,
        (409, _) => ApiErrorKind::Conflict,
        (403, _) => ApiErrorKind::Forbidden,
        (401, _) => ApiErrorKind::Unauthorized,
        (410, _) => ApiErrorKind::Gone,
        (429, _) => ApiErrorKind::Throttled,
        (500.., _) => ApiErrorKind::Server,
        _ => ApiErrorKind::Invalid,
    }
}

/// Formats the error with its causes, which kube's messages omit.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_status_codes_to_error_kinds() {
        let cases = [
            (404, "NotFound", ApiErrorKind::NotFound),
            (409, "AlreadyExists", ApiErrorKind::AlreadyExists),
            (409, "Conflict", ApiErrorKind::Conflict),
            (403, "Forbidden", ApiErrorKind::Forbidden),
            (401, "Unauthorized", ApiErrorKind::Unauthorized),
            (422, "Invalid", ApiErrorKind::Invalid),
            (400, "BadRequest", ApiErrorKind::Invalid),
            (410, "Expired", ApiErrorKind::Gone),
            (429, "TooManyRequests", ApiErrorKind::Throttled),
            (500, "InternalError", ApiErrorKind::Server),
            (504, "Timeout", ApiErrorKind::Server),
        ];
        for (code, reason, expected) in cases {
            assert_eq!(kind(code, reason), expected, "{code} {reason}");
        }
    }

    #[test]
    fn caps_retry_after_at_one_minute() {
        for (seconds, expected) in [(0, None), (7, Some(7)), (u32::MAX, Some(60))] {
            let details = serde_json::json!({"retryAfterSeconds": seconds});
            let status = serde_json::json!({"status": "Failure", "code": 429, "details": details});
            let error = status_error(&serde_json::from_value(status).unwrap());
            assert_eq!(error.retry_after, expected.map(Duration::from_secs), "{seconds}");
        }
    }
}
