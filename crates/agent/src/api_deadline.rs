//! A limit for requests to the API server.

use std::future::Future;
use std::time::Duration;

use ports::api::{ApiError, ApiErrorKind};

/// The request's outcome, or that there was none in time; the server may still act on it.
///
/// # Errors
/// Those of the request.
pub async fn within<T>(
    deadline: Duration,
    request: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    tokio::time::timeout(deadline, request).await.unwrap_or_else(|_| {
        let message = format!("no answer within {deadline:?}");
        Err(ApiError { kind: ApiErrorKind::Unreachable, message, retry_after: None })
    })
}
