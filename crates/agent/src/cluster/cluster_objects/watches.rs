//! The stage that starts and stops watches as pods start and stop using objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::projected::object_references::object_references;
use futures::StreamExt;
use model::{ObjectKey, Pod, PodUid, WorkerPhase, WorkerView};
use ports::api::Feed;
use timing::KeyReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::entries::ObjectState;
use super::{ChangeDetectionStrategy, ClusterObjects};
use crate::pipeline::tables::Reader;

/// How long an object without references stays after its last use.
const UNREFERENCED_TTL: Duration = Duration::from_secs(60);
/// The same for an object whose watch fails. References usually follow the first use within milliseconds.
const FAILED_UNREFERENCED_TTL: Duration = Duration::from_secs(5);

pub struct ClusterObjectsDeps {
    pub objects: Arc<ClusterObjects>,
    /// From [`ClusterObjects::new`].
    pub watch_requests: KeyReceiver<ObjectKey>,
    /// Pods whose spec or worker changed.
    pub changed_pods: KeyReceiver<PodUid>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
}

/// Runs until cancelled.
pub async fn run(mut deps: ClusterObjectsDeps, cancel: CancellationToken) {
    let mut watches = JoinSet::new();
    let mut sweep = tokio::time::interval(UNREFERENCED_TTL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = deps.changed_pods.recv() => {
                let Some(uid) = changed else { return };
                update_references(&deps, &uid);
            }
            request = deps.watch_requests.recv() => {
                let Some(key) = request else { return };
                let stop = deps.objects.entries.lock().stop_token(&key);
                if let Some(stop) = stop {
                    watches.spawn(watch(Arc::clone(&deps.objects), key, stop));
                }
            }
            Some(ended) = watches.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "object watch task panicked");
                }
            }
            _ = sweep.tick() => deps.objects.entries.lock().drop_unreferenced(Instant::now(), UNREFERENCED_TTL),
        }
    }
}

/// A pod uses its objects from the time it is desired until its worker is finished.
fn update_references(deps: &ClusterObjectsDeps, uid: &PodUid) {
    let phase = deps.workers.get(uid).map(|view| view.phase);
    let keys = match (deps.desired.get(uid), phase) {
        // A finished pod may still be in the table of desired pods, but uses nothing.
        (Some(_), Some(WorkerPhase::Finished)) | (None, Some(WorkerPhase::Finished) | None) => {
            BTreeSet::new()
        }
        (Some(pod), Some(_) | None) => object_references(&pod),
        // No longer desired, but its containers may still run.
        (None, Some(WorkerPhase::Syncing | WorkerPhase::Terminating | WorkerPhase::Terminated)) => return,
    };
    let new = deps.objects.entries.lock().set_references(uid, keys, Instant::now());
    for key in new {
        deps.objects.request_watch(&key);
    }
}

/// Watches one object until no pod uses it. The watch of an immutable object ends with its first state.
async fn watch(objects: Arc<ClusterObjects>, key: ObjectKey, stop: CancellationToken) {
    debug_assert_eq!(objects.strategy, ChangeDetectionStrategy::Watch, "only this strategy requests watches");
    let mut feed = objects.api.watch(&key);
    loop {
        let Some(item) = stop.run_until_cancelled(feed.next()).await else { return };
        let state = match item {
            None => return,
            Some(Feed::Listed(found)) => found.into_iter().next().map_or(ObjectState::Missing, present),
            Some(Feed::Applied(object)) => present(object),
            Some(Feed::Deleted(_)) => ObjectState::Missing,
            Some(Feed::Failed(error)) => {
                // The API server refuses the objects of a pod that was deleted before its references were registered.
                let now = Instant::now();
                if objects.entries.lock().drop_if_unreferenced(&key, now, FAILED_UNREFERENCED_TTL) {
                    return;
                }
                tracing::debug!(object = %key, %error, "object watch failed, retrying");
                ObjectState::Failed(error)
            }
        };
        let is_final = matches!(&state, ObjectState::Object(object) if object.immutable);
        if !stop.is_cancelled() {
            objects.entries.lock().set(&key, state, None);
        }
        if is_final {
            return;
        }
    }
}

fn present(object: model::ConfigObject) -> ObjectState {
    ObjectState::Object(Arc::new(object))
}
