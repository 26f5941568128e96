//! Trust bundles of the cluster.

use model::TrustBundle;

use super::FeedStream;

/// Watches trust bundles.
pub trait ApiTrustBundles: Send + Sync {
    /// All trust bundles of the cluster.
    fn watch(&self) -> FeedStream<TrustBundle>;
}
