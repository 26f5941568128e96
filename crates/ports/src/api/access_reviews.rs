//! Access reviews: what a client of the node API may do.

use async_trait::async_trait;
use model::AccessQuestion;

use super::ApiError;

/// Sends SubjectAccessReviews.
#[async_trait]
pub trait ApiAccessReviews: Send + Sync {
    /// Whether the request is allowed; "no opinion" counts as denied. Has a deadline.
    async fn allowed(&self, question: &AccessQuestion) -> Result<bool, ApiError>;
}
