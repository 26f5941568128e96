//! Calls that do not hang.

use std::time::Duration;

use ports::api::{ApiError, ApiErrorKind};

use crate::errors::api_error;

/// Longest time for one request.
const LONGEST: Duration = Duration::from_secs(30);

/// A request that fails as unreachable when it takes too long.
pub(crate) async fn with_deadline<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(LONGEST, request).await {
        Ok(answer) => answer.map_err(|error| api_error(&error)),
        Err(_) => Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no answer from the API server in {} s", LONGEST.as_secs()),
            retry_after: None,
        }),
    }
}
