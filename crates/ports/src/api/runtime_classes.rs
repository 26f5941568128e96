//! Runtime classes of the cluster.

use super::FeedStream;

/// A runtime class, as far as a node needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeClass {
    /// Its name.
    pub name: String,
    /// The runtime's handler that it stands for.
    pub handler: String,
}

/// Follows runtime classes.
pub trait ApiRuntimeClasses: Send + Sync {
    /// All runtime classes.
    fn watch(&self) -> FeedStream<RuntimeClass>;
}
