//! Token reviews: the owner of a bearer token.

use async_trait::async_trait;
use model::User;

use super::ApiError;

/// Sends TokenReviews.
#[async_trait]
pub trait ApiTokenReviews: Send + Sync {
    /// The owner of a token; `None` when the API server rejects it. Has a deadline.
    async fn owner(&self, token: &str) -> Result<Option<User>, ApiError>;
}
