//! The four verbs a pod worker knows.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use model::{ObservedPod, Pod, SyncFailure, SyncOutcome, UpdateKind};

/// Tells a running pass that something newer waits. A pass checks it between steps.
pub trait Interruption: Send + Sync {
    /// Whether the pass should end early.
    fn is_requested(&self) -> bool;

    /// Returns when the pass should end early; for steps that may take minutes.
    fn requested(&self) -> BoxFuture<'_, ()>;
}

/// Brings the runtime in line for one pod. Each verb is one pass: it may be repeated at any time, also after
/// the agent was killed in the middle.
#[async_trait]
pub trait PodSyncer: Send + Sync {
    /// Makes the pod run as its spec says.
    async fn sync_pod(
        &self,
        pod: &Arc<Pod>,
        kind: UpdateKind,
        interruption: &dyn Interruption,
    ) -> Result<SyncOutcome, SyncFailure>;

    /// Stops everything of the pod within `grace_seconds`. Success means that nothing runs.
    async fn sync_terminating_pod(&self, pod: &Arc<Pod>, grace_seconds: u64) -> Result<(), SyncFailure>;

    /// The same for a pod that only the runtime knows.
    async fn sync_terminating_orphan(&self, pod: &ObservedPod, grace_seconds: u64)
    -> Result<(), SyncFailure>;

    /// Cleans up what a stopped pod left: volumes, cgroups.
    async fn sync_terminated_pod(&self, pod: &Arc<Pod>) -> Result<(), SyncFailure>;
}
