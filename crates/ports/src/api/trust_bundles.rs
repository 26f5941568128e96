//! Trust bundles of the cluster.

use model::TrustBundle;

use super::FeedStream;

/// Follows trust bundles.
pub trait ApiTrustBundles: Send + Sync {
    /// All of them.
    fn watch(&self) -> FeedStream<TrustBundle>;
}
