//! A timeout for single API requests.

use std::time::Duration;

use ports::api::{ApiError, ApiErrorKind};

use crate::errors::api_error;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Fails with [`ApiErrorKind::Unreachable`] after [`REQUEST_TIMEOUT`].
pub(crate) async fn with_deadline<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(response) => response.map_err(|error| api_error(&error)),
        Err(_) => Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no response from the API server within {} s", REQUEST_TIMEOUT.as_secs()),
            retry_after: None,
        }),
    }
}
