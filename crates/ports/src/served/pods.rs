//! Pods with their statuses, for programs on the node.

use futures::stream::BoxStream;
use serde_json::Value;

/// A change of a pod, in the form of the API server's JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum PodChange {
    /// A pod that the client does not know.
    Added(Value),
    /// A pod that has changed.
    Modified(Value),
    /// A removed pod, with name, namespace and UID only.
    Deleted(Value),
    /// The client has all pods that existed when it connected.
    InitialSyncComplete,
}

/// Reads all pods of the node: those of the API server, and static pods, but no mirror pods.
pub trait Pods: Send + Sync {
    /// All pods, ordered by UID.
    fn list(&self) -> Vec<Value>;

    /// A pod by its UID; `None` if there is none.
    fn get(&self, uid: &str) -> Option<Value>;

    /// All pods, then their changes, without end. A reader that falls behind misses intermediate states of a pod, but no
    /// pod. What it has not read yet takes no memory.
    fn watch(&self) -> BoxStream<'static, PodChange>;
}
