//! ConfigMaps and Secrets.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
pub use model::ObjectError;
use model::{ConfigObject, ObjectKey};

/// Where pods get their ConfigMaps and Secrets from: the node's own manifests, or an API server.
#[async_trait]
pub trait Objects: Send + Sync {
    /// The newest known version of an object.
    async fn get(&self, key: &ObjectKey) -> Result<Arc<ConfigObject>, ObjectError>;

    /// Hints that an object came, changed or went. A hint carries no content: the reader asks again. Hints that
    /// nobody took in time may be joined; none is lost for a key.
    fn changes(&self) -> BoxStream<'static, ObjectKey>;
}
