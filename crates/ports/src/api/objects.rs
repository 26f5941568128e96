//! ConfigMaps and Secrets at the API server, one at a time: a node may see only those its pods refer to.

use async_trait::async_trait;
use model::{ConfigObject, ObjectKey};

use super::{ApiError, FeedStream};

/// Reads single ConfigMaps and Secrets.
#[async_trait]
pub trait ApiObjects: Send + Sync {
    /// The object as it is now; has a deadline.
    async fn get(&self, key: &ObjectKey) -> Result<ConfigObject, ApiError>;

    /// Watches one object: a list holds it or nothing. A refusal is told and tried again soon, as the server may not
    /// know yet that the pod which refers to the object runs here.
    fn watch(&self, key: &ObjectKey) -> FeedStream<ConfigObject>;
}
