//! The source's memory: what it sent last, and what it sends while the API server is away.

use std::sync::Arc;
use std::time::Duration;

use decide::offline::may_run_unconfirmed;
use k8s_openapi::api::core::v1 as core;
use model::{Pod, PodSource, Snapshot, SnapshotKind, Standing, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::memory::Memory;

const NAME: &str = "pods";
/// The least time between two writes: a burst of changes is one write.
const PAUSE: Duration = Duration::from_secs(1);

/// What was last known, and when.
#[derive(Clone, Default)]
pub(super) struct Newest {
    pub(super) pods: Vec<Arc<Pod>>,
    /// When the API server was last heard.
    pub(super) heard_at: Timestamp,
}

/// The pods of the last agent, if they are young enough to be run without the API server.
pub(super) async fn recall(memory: &Memory, max_age: Option<Duration>, now: Timestamp) -> Option<Snapshot> {
    let kept = memory.recall::<Vec<core::Pod>>(NAME).await?;
    if !may_run_unconfirmed(kept.confirmed_at(), now, max_age) {
        tracing::warn!(age = ?now.since(kept.confirmed_at()), "the remembered pods of the API server are too old to be run without it");
        return None;
    }
    let pods: Vec<_> = kept.content.into_iter().filter_map(remembered).collect();
    (!pods.is_empty()).then_some(Snapshot { source: PodSource::Api, kind: SnapshotKind::Restore, pods })
}

fn remembered(object: core::Pod) -> Option<Arc<Pod>> {
    let mut pod = Pod::from_object(object, PodSource::Api).ok()?;
    pod.standing = Standing::Remembered;
    Some(Arc::new(pod))
}

/// Keeps the newest set. Runs until cancelled.
pub(super) async fn keep(
    memory: Memory,
    mut newest: watch::Receiver<Option<Newest>>,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = newest.changed() => if changed.is_err() { return },
        }
        let set = newest.borrow_and_update().clone();
        if let Some(set) = set {
            let objects: Vec<_> = set.pods.iter().map(|pod| pod.to_object(pod.status.clone())).collect();
            memory.keep(NAME, &objects, set.heard_at).await;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
