//! The stage that keeps the watches in line with what pods use.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::object_references::object_references;
use futures::StreamExt;
use model::{ObjectKey, Pod, PodUid, WorkerPhase, WorkerView};
use ports::api::Feed;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::entries::Answer;
use super::{ClusterObjects, Strategy};
use crate::published::Reader;

/// How long an object may stay that was asked for, but is used by no pod.
const UNCLAIMED: Duration = Duration::from_secs(60);

/// What the stage needs.
pub struct Parts {
    /// The store.
    pub objects: Arc<ClusterObjects>,
    /// Objects to be watched.
    pub orders: mpsc::UnboundedReceiver<ObjectKey>,
    /// Pods of which the wish or the worker changed.
    pub changed_pods: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far their workers are.
    pub workers: Reader<WorkerView>,
}

/// Runs until cancelled.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let mut watches = JoinSet::new();
    let mut sweep = tokio::time::interval(UNCLAIMED);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = parts.changed_pods.recv() => {
                let Some(uid) = changed else { return };
                claim(&parts, &uid);
            }
            order = parts.orders.recv() => {
                let Some(key) = order else { return };
                let end = parts.objects.entries().end_of(&key);
                if let Some(end) = end {
                    watches.spawn(watch(Arc::clone(&parts.objects), key, end));
                }
            }
            Some(ended) = watches.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the watch of an object broke off");
                }
            }
            _ = sweep.tick() => parts.objects.entries().drop_unclaimed(Instant::now(), UNCLAIMED),
        }
    }
}

/// A pod uses its objects from when it is wanted until its worker is finished.
fn claim(parts: &Parts, uid: &PodUid) {
    let phase = parts.workers.get(uid).map(|view| view.phase);
    let keys = match (parts.desired.get(uid), phase) {
        // What a finished pod leaves in the table of wishes needs nothing any more.
        (Some(_), Some(WorkerPhase::Finished)) | (None, Some(WorkerPhase::Finished) | None) => {
            BTreeSet::new()
        }
        (Some(pod), Some(_) | None) => object_references(&pod),
        // No longer wanted, but its containers still run.
        (None, Some(WorkerPhase::Syncing | WorkerPhase::Terminating | WorkerPhase::Terminated)) => return,
    };
    let new = parts.objects.entries().claim(uid, keys, Instant::now());
    for key in new {
        parts.objects.want(&key);
    }
}

/// Watches one object until nobody uses it, or it cannot change any more.
async fn watch(objects: Arc<ClusterObjects>, key: ObjectKey, end: CancellationToken) {
    debug_assert_eq!(objects.strategy, Strategy::Watch, "only this strategy orders watches");
    let mut feed = objects.api.watch(&key);
    loop {
        let item = tokio::select! {
            () = end.cancelled() => return,
            item = feed.next() => item,
        };
        let answer = match item {
            None => return,
            Some(Feed::Listed(found)) => found.into_iter().next().map_or(Answer::Missing, told),
            Some(Feed::Applied(object)) => told(object),
            Some(Feed::Deleted(_)) => Answer::Missing,
            Some(Feed::Failed(error)) => {
                tracing::debug!(object = %key, %error, "an object cannot be watched; trying again");
                Answer::Failed(error)
            }
        };
        let is_final = matches!(&answer, Answer::Object(object) if object.immutable);
        if !end.is_cancelled() {
            objects.entries().set(&key, answer, None);
        }
        if is_final {
            return;
        }
    }
}

fn told(object: model::ConfigObject) -> Answer {
    Answer::Object(Arc::new(object))
}
