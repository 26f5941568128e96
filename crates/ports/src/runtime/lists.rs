use async_trait::async_trait;
use model::{ListMark, PodLists};

use super::RuntimeError;

/// Everything that the runtime holds at once. Every call has its own deadline inside the adapter.
#[async_trait]
pub trait Lists: Send + Sync {
    /// All sandboxes and containers that carry a pod UID label, or only that they are as `known` says: a node whose
    /// pods rest is listed again and again, and most answers hold nothing new. Foreign ones are left out.
    async fn list_pods(&self, known: Option<ListMark>) -> Result<PodLists, RuntimeError>;
}
