//! Runtime classes of the cluster.

use super::FeedStream;

/// The fields of a RuntimeClass that a node needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeClass {
    /// Its name.
    pub name: String,
    /// The runtime handler that it selects.
    pub handler: String,
}

/// Watches runtime classes.
pub trait ApiRuntimeClasses: Send + Sync {
    /// All runtime classes.
    fn watch(&self) -> FeedStream<RuntimeClass>;
}
