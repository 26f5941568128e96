//! Writes pod statuses to the API server.
//!
//! Each pod has a local status and the status of its API object. While they differ, the newest local status is written;
//! old statuses are not queued. Changes of readiness and of the final phase are written first and without delay, other
//! changes are debounced. Every ten seconds all pods are compared again, so that a status that another writer replaced is
//! corrected.
//!
//! A pod that was deleted, has a final status and has nothing left on the node is deleted from the API server.

mod limiter;
mod pod_delivery;
mod writes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Pod, PodFullName, PodUid, StatusUrgency, WorkerView};
use ports::api::pods::ApiPods;
use ports::clock::Clock;
use timing::{DelayQueue, KeyReceiver, sleep_until};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::cluster::api_pods::{ApiPodChange, ApiPodsReader};
use crate::metrics::Metrics;
use crate::pipeline::cached_status::CachedStatus;
use crate::pipeline::tables::Reader;
use limiter::{WriteClass, WriteLimiter};
use pod_delivery::PodDelivery;
use writes::{FinishedWrite, Write, WriteOutcome};

const RECONCILE_PERIOD: Duration = Duration::from_secs(10);
/// Delay of [`StatusUrgency::Deferred`] writes.
const DEBOUNCE: Duration = Duration::from_secs(1);

pub struct StatusDeliveryDeps {
    /// Pods whose status or worker changed.
    pub changes: KeyReceiver<PodUid>,
    pub api_pod_changes: KeyReceiver<ApiPodChange>,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    pub statuses: Reader<CachedStatus>,
    pub api_pods: ApiPodsReader,
    pub pods: Arc<dyn ApiPods>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled. A write in flight is dropped then; the next start finds out whether it arrived.
pub async fn run(deps: StatusDeliveryDeps, cancel: CancellationToken) {
    let mut delivery = Delivery {
        deps,
        pods: HashMap::new(),
        static_pods: HashMap::new(),
        urgent: DelayQueue::default(),
        normal: DelayQueue::default(),
        writes: JoinSet::new(),
        write_ids: HashMap::new(),
        limiter: WriteLimiter::default(),
    };
    // The first tick is delayed, because reconciliation ignores the debounce of changes just before it.
    let mut reconcile = tokio::time::interval_at(Instant::now() + RECONCILE_PERIOD, RECONCILE_PERIOD);
    reconcile.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next_due = delivery.next_due();
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(uid) = delivery.deps.changes.recv() => {
                let mut changed = HashSet::from([uid]);
                while let Some(more) = delivery.deps.changes.try_recv() {
                    changed.insert(more);
                }
                for uid in &changed {
                    delivery.evaluate(uid, Cause::LocalChange);
                }
            }
            Some(change) = delivery.deps.api_pod_changes.recv() => delivery.on_api_change(change),
            Some(joined) = delivery.writes.join_next_with_id() => delivery.on_write_finished(joined),
            () = sleep_until(next_due) => {}
            _ = reconcile.tick() => delivery.reconcile(),
        }
        // Starts due writes now; the timer would add up to one tick.
        delivery.start_due();
    }
}

/// Why a pod is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    LocalChange,
    /// The API object changed.
    ApiChange,
    Reconcile,
}

struct Delivery {
    deps: StatusDeliveryDeps,
    pods: HashMap<PodUid, PodDelivery>,
    /// Static pods by name, to find the pod of a mirror pod.
    static_pods: HashMap<PodFullName, PodUid>,
    urgent: DelayQueue<PodUid>,
    normal: DelayQueue<PodUid>,
    writes: JoinSet<FinishedWrite>,
    write_ids: HashMap<tokio::task::Id, PodUid>,
    limiter: WriteLimiter,
}

impl Delivery {
    /// Determines the next write of a pod and when it is due.
    fn evaluate(&mut self, uid: &PodUid, cause: Cause) {
        let Some(pod) = self.deps.desired.get(uid) else {
            self.remove(uid);
            return;
        };
        if pod.is_static() {
            self.static_pods.insert(pod.full_name.clone(), uid.clone());
        }
        let delivery = self.pods.entry(uid.clone()).or_default();
        if delivery.busy {
            // Evaluated again when the write in flight has finished.
            return;
        }
        let next = delivery.next_write(&self.deps, &pod);
        let now = Instant::now();
        delivery.record_difference(next.as_ref(), now);
        let due = match (next.as_ref().map(|next| next.urgency), cause) {
            (None, _) => None,
            // A writer that overwrites our status may do so again, so the next reconciliation corrects it.
            (Some(_), Cause::ApiChange)
                if delivery.has_written && !next.as_ref().is_some_and(Write::is_delete) =>
            {
                delivery.due
            }
            (Some(StatusUrgency::Deferred), Cause::LocalChange | Cause::ApiChange) => {
                let at = delivery.due.map_or(now + DEBOUNCE, |(_, at)| at.min(now + DEBOUNCE));
                Some((WriteClass::Normal, at))
            }
            (Some(urgency), _) => Some((WriteClass::of(urgency), now)),
        };
        let due = due.map(|(class, at)| (class, at.max(delivery.not_before.unwrap_or(at))));
        delivery.next = next.filter(|_| due.is_some());
        let before = std::mem::replace(&mut delivery.due, due);
        if before != due {
            if let Some((class, _)) = before {
                self.queue(class).remove(uid);
            }
            if let Some((class, at)) = due {
                self.queue(class).set(uid.clone(), at);
            }
        }
    }

    fn remove(&mut self, uid: &PodUid) {
        if let Some(delivery) = self.pods.remove(uid)
            && let Some((class, _)) = delivery.due
        {
            self.queue(class).remove(uid);
        }
        self.static_pods.retain(|_, named| named != uid);
    }

    fn on_api_change(&mut self, change: ApiPodChange) {
        let uid = match self.static_pods.get(&change.full_name) {
            Some(uid) if self.deps.desired.get(&change.uid).is_none() => uid.clone(),
            Some(_) | None => change.uid,
        };
        if self.pods.contains_key(&uid) {
            self.evaluate(&uid, Cause::ApiChange);
        }
    }

    fn reconcile(&mut self) {
        let uids: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in &uids {
            self.evaluate(uid, Cause::Reconcile);
        }
    }

    fn queue(&mut self, class: WriteClass) -> &mut DelayQueue<PodUid> {
        match class {
            WriteClass::Urgent => &mut self.urgent,
            WriteClass::Normal => &mut self.normal,
        }
    }

    /// When the next write is due and the limiter permits it.
    fn next_due(&self) -> Option<Instant> {
        let classes = [(WriteClass::Urgent, &self.urgent), (WriteClass::Normal, &self.normal)];
        let free = classes.into_iter().filter(|(class, _)| self.limiter.has_capacity(*class));
        free.filter_map(|(_, queue)| queue.next_due()).map(|at| self.limiter.not_before(at)).min()
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for class in [WriteClass::Urgent, WriteClass::Normal] {
            while self.limiter.has_capacity(class) && self.limiter.not_before(now) <= now {
                let Some(uid) = self.queue(class).pop_due(now) else { break };
                self.start(&uid);
            }
        }
    }

    fn start(&mut self, uid: &PodUid) {
        if self.deps.desired.get(uid).is_none() {
            self.remove(uid);
            return;
        }
        let Some(delivery) = self.pods.get_mut(uid) else { return };
        delivery.due = None;
        let Some(write) = delivery.next.take() else { return };
        delivery.busy = true;
        self.limiter.start(WriteClass::of(write.urgency));
        let task = self.writes.spawn(write.execute(Arc::clone(&self.deps.pods)));
        self.write_ids.insert(task.id(), uid.clone());
    }

    fn on_write_finished(
        &mut self,
        joined: Result<(tokio::task::Id, FinishedWrite), tokio::task::JoinError>,
    ) {
        let (id, finished) = match joined {
            Ok((id, finished)) => (id, Some(finished)),
            Err(error) => {
                tracing::error!(%error, "status write task panicked");
                (error.id(), None)
            }
        };
        let Some(uid) = self.write_ids.remove(&id) else { return };
        let Some(FinishedWrite { class, target, outcome }) = finished else {
            self.limiter.reset_running();
            if let Some(delivery) = self.pods.get_mut(&uid) {
                delivery.busy = false;
            }
            return;
        };
        let retry_from = self.limiter.finish(class, &outcome);
        if let Some(delivery) = self.pods.get_mut(&uid) {
            delivery.busy = false;
            // Only a successful write ends the measured duration; others are repeated.
            if matches!(outcome, WriteOutcome::Patched(_))
                && let Some(since) = delivery.differs_since.take()
            {
                self.deps.metrics.pods.status_sync_duration.observe(since.elapsed().as_secs_f64());
            }
            delivery.apply(&target, outcome, retry_from);
            self.evaluate(&uid, Cause::LocalChange);
        }
    }
}

impl WriteOutcome {
    /// Whether the API server processed the request.
    fn was_processed(&self) -> bool {
        match self {
            Self::Patched(_) | Self::Read(_) | Self::Deleted | Self::NotFound => true,
            Self::Failed(error) => !error.is_transient(),
        }
    }
}

#[cfg(test)]
mod tests;
