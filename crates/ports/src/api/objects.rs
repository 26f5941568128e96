//! ConfigMaps and Secrets at the API server, one at a time: a node may see only those its pods refer to.

use async_trait::async_trait;
use model::{ConfigObject, ObjectKey};

use super::{ApiError, FeedStream};

/// Reads single ConfigMaps and Secrets.
#[async_trait]
pub trait ApiObjects: Send + Sync {
    /// Reads the current object; has a deadline.
    async fn get(&self, key: &ObjectKey) -> Result<ConfigObject, ApiError>;

    /// Watches one object; a list has one element or none. After a refusal the adapter reports it and retries soon, because
    /// the server may not know yet that a pod of this node refers to the object.
    fn watch(&self, key: &ObjectKey) -> FeedStream<ConfigObject>;
}
