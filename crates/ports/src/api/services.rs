//! Services of the cluster.

use model::Service;

use super::FeedStream;

/// Watches services.
pub trait ApiServices: Send + Sync {
    /// All services of all namespaces.
    fn watch(&self) -> FeedStream<Service>;
}
