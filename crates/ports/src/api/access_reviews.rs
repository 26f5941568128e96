//! What clients of the node may do.

use async_trait::async_trait;
use model::AccessQuestion;

use super::ApiError;

/// Asks the API server what somebody may do.
#[async_trait]
pub trait ApiAccessReviews: Send + Sync {
    /// Whether it is allowed; no opinion is a no. Has a deadline.
    async fn allowed(&self, question: &AccessQuestion) -> Result<bool, ApiError>;
}
