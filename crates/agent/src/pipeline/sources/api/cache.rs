//! Cache of the API pods on disk, used when the API server does not answer after a restart of the agent.

use std::sync::Arc;
use std::time::Duration;

use decide::node::offline::may_run_unconfirmed;
use k8s_openapi::api::core::v1 as core;
use model::{Pod, PodSource, Snapshot, SnapshotKind, Standing, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::offline_cache::OfflineCache;

const NAME: &str = "pods";
/// The shortest time between two writes, which coalesces bursts of changes.
const MIN_SAVE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
pub(super) struct LatestPods {
    pub(super) pods: Vec<Arc<Pod>>,
    /// When the API server last confirmed the pods.
    pub(super) confirmed_at: Timestamp,
}

/// Loads the pods of the last run of the agent, if they are recent enough to run without the API server.
pub(super) async fn load(
    cache: &OfflineCache,
    max_age: Option<Duration>,
    now: Timestamp,
) -> Option<Snapshot> {
    let cached = cache.load::<Vec<core::Pod>>(NAME).await?;
    if !may_run_unconfirmed(cached.confirmed_at(), now, max_age) {
        tracing::warn!(age = ?now.since(cached.confirmed_at()), "cached API pods are too old to run without the API server");
        return None;
    }
    let pods: Vec<_> = cached.content.into_iter().filter_map(cached_pod).collect();
    (!pods.is_empty()).then_some(Snapshot { source: PodSource::Api, kind: SnapshotKind::Restore, pods })
}

fn cached_pod(object: core::Pod) -> Option<Arc<Pod>> {
    let mut pod = Pod::from_object(object, PodSource::Api).ok()?;
    pod.standing = Standing::Remembered;
    Some(Arc::new(pod))
}

/// Writes the latest pods to the cache until cancelled.
pub(super) async fn save_changes(
    cache: OfflineCache,
    mut latest: watch::Receiver<Option<LatestPods>>,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = latest.changed() => if changed.is_err() { return },
        }
        let set = latest.borrow_and_update().clone();
        if let Some(set) = set {
            let objects: Vec<_> = set.pods.iter().map(|pod| pod.to_object(pod.status.clone())).collect();
            cache.save(NAME, &objects, set.confirmed_at).await;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(MIN_SAVE_INTERVAL) => {}
        }
    }
}
