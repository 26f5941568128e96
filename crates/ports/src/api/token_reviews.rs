//! Whose token it is.

use async_trait::async_trait;
use model::User;

use super::ApiError;

/// Asks the API server about bearer tokens.
#[async_trait]
pub trait ApiTokenReviews: Send + Sync {
    /// The owner of a token; `None` when the API server does not know it. Has a deadline.
    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError>;
}
