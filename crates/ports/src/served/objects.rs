//! ConfigMaps and Secrets.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
pub use model::ObjectError;
use model::{ConfigObject, ObjectKey};

/// ConfigMaps and Secrets of pods, from the node's manifests or from the API server.
#[async_trait]
pub trait Objects: Send + Sync {
    /// The newest known version of an object.
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError>;

    /// Hints that an object was added, changed or removed. A hint carries no content: the reader calls [`Objects::get`]. Hints
    /// for the same key may be coalesced; none is lost.
    fn changes(&self) -> BoxStream<'static, ObjectKey>;
}
