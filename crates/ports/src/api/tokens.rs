//! Tokens of service accounts.

use async_trait::async_trait;
use model::{IssuedToken, TokenRequest};

use super::ApiError;

/// Issues tokens.
#[async_trait]
pub trait ApiTokens: Send + Sync {
    /// Requests a token that is bound to a pod of this node; has a deadline.
    async fn create(&self, request: &TokenRequest) -> Result<IssuedToken, ApiError>;
}
