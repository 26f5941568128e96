//! Timeouts for requests to the API server.

use std::future::Future;
use std::time::Duration;

use ports::api::{ApiError, ApiErrorKind};

/// Time for one request about a volume.
const VOLUME_TIMEOUT: Duration = Duration::from_secs(20);

/// Fails with [`ApiErrorKind::Unreachable`] after the timeout; the server may still carry out the request.
///
/// # Errors
/// Those of the request, or the timeout.
pub async fn with_timeout<T>(
    timeout: Duration,
    request: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    tokio::time::timeout(timeout, request)
        .await
        .unwrap_or_else(|_| Err(timed_out(format!("no response within {timeout:?}"))))
}

/// As [`with_timeout`] for objects of volumes, whose events have another text.
///
/// # Errors
/// Those of the request, or the timeout.
pub async fn within_deadline<T>(request: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    tokio::time::timeout(VOLUME_TIMEOUT, request)
        .await
        .unwrap_or_else(|_| Err(timed_out(format!("no answer after {}s", VOLUME_TIMEOUT.as_secs()))))
}

fn timed_out(message: String) -> ApiError {
    ApiError { kind: ApiErrorKind::Unreachable, message, retry_after: None }
}
