use async_trait::async_trait;
use model::{ListMark, PodLists};

use super::RuntimeError;

/// Lists of all pods at once. Every call has its own deadline inside the adapter.
#[async_trait]
pub trait Lists: Send + Sync {
    /// All sandboxes and containers that carry a pod UID label, or only the information that nothing changed since `known`:
    /// an idle node is listed again and again. Those of other clients are left out.
    async fn list_pods(&self, known: Option<ListMark>) -> Result<PodLists, RuntimeError>;
}
