//! Timeouts for requests to the API server.

use std::future::Future;
use std::time::Duration;

use ports::api::{ApiError, ApiErrorKind};

/// Fails with [`ApiErrorKind::Unreachable`] after the timeout; the server may still carry out the request.
///
/// # Errors
/// Those of the request, or the timeout.
pub async fn with_timeout<T>(
    timeout: Duration,
    request: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    tokio::time::timeout(timeout, request).await.unwrap_or_else(|_| {
        let message = format!("no response within {timeout:?}");
        Err(ApiError { kind: ApiErrorKind::Unreachable, message, retry_after: None })
    })
}
