//! Brings the statuses of pods to the API server.
//!
//! For each pod there are two statuses: our own, and the one that the API server shows. As long as they differ there is
//! something to write, and what is written is always the newest; nothing is queued. Readiness and ends go first and
//! at once; what changes on a pod's way up is gathered for a moment. Each ten seconds everything is compared anew,
//! so that what somebody overwrote is put right.
//!
//! A pod that was deleted, is shown to be over and of which nothing is left is let go for good.

mod pace;
mod rows;
mod writes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Pod, PodFullName, PodUid, WorkerView};
use ports::api::pods::{ApiPods, Urgency};
use ports::clock::Clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::api_pods::{ApiPodChange, ApiPodsReader};
use crate::kept_status::KeptStatus;
use crate::metrics::Metrics;
use crate::published::Reader;
use pace::Pace;
use rows::{Row, Step};
use writes::{Done, Ended};

/// Time between two comparisons of everything.
const RECONCILE: Duration = Duration::from_secs(10);
/// How long changes that nobody waits for are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// What the stage needs.
pub struct Parts {
    /// UIDs of pods whose status or worker changed.
    pub changes: mpsc::UnboundedReceiver<PodUid>,
    /// What changed at the API server.
    pub shown_changes: mpsc::UnboundedReceiver<ApiPodChange>,
    /// Pods that sources want.
    pub desired: Reader<Pod>,
    /// How far workers are.
    pub workers: Reader<WorkerView>,
    /// Our own statuses.
    pub statuses: Reader<KeptStatus>,
    /// What the API server shows.
    pub shown: ApiPodsReader,
    /// The API server.
    pub pods: Arc<dyn ApiPods>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}

/// Runs until cancelled. A write under way is dropped then; whether it arrived is seen at the next start.
pub async fn run(mut parts: Parts, cancel: CancellationToken) {
    let (_, nothing) = mpsc::unbounded_channel();
    let mut changes = std::mem::replace(&mut parts.changes, nothing);
    let (_, nothing) = mpsc::unbounded_channel();
    let mut shown_changes = std::mem::replace(&mut parts.shown_changes, nothing);
    let mut delivery = Delivery {
        parts,
        rows: HashMap::new(),
        names: HashMap::new(),
        queue: BTreeSet::new(),
        writes: JoinSet::new(),
        write_ids: HashMap::new(),
        pace: Pace::default(),
    };
    // Not at once: a first tick would cut the gathering of whatever came just before it.
    let mut reconcile = tokio::time::interval_at(Instant::now() + RECONCILE, RECONCILE);
    reconcile.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next_due = delivery.next_due();
        tokio::select! {
            () = cancel.cancelled() => return,
            Some(uid) = changes.recv() => {
                let mut changed = HashSet::from([uid]);
                while let Ok(more) = changes.try_recv() {
                    changed.insert(more);
                }
                for uid in &changed {
                    delivery.consider(uid, Cause::Own);
                }
            }
            Some(change) = shown_changes.recv() => delivery.on_shown(change),
            Some(ended) = delivery.writes.join_next_with_id() => delivery.on_ended(ended),
            () = sleep_until(next_due) => {}
            _ = reconcile.tick() => delivery.reconcile(),
        }
        // What is due now does not wait for the timer's next tick.
        delivery.start_due();
    }
}

/// Why a pod is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Our side changed.
    Own,
    /// The API server's side changed.
    Shown,
    /// It is time to compare.
    Reconcile,
}

struct Delivery {
    parts: Parts,
    rows: HashMap<PodUid, Row>,
    /// Static pods by name, for their mirrors.
    names: HashMap<PodFullName, PodUid>,
    /// Pods by the time of their next write, the urgent ones first.
    queue: BTreeSet<(Urgency, Instant, PodUid)>,
    writes: JoinSet<Done>,
    write_ids: HashMap<tokio::task::Id, PodUid>,
    pace: Pace,
}

impl Delivery {
    /// Looks at a pod and notes when something is to be written.
    fn consider(&mut self, uid: &PodUid, cause: Cause) {
        let Some(pod) = self.parts.desired.get(uid) else {
            self.forget(uid);
            return;
        };
        if pod.is_static() {
            self.names.insert(pod.full_name.clone(), uid.clone());
        }
        let row = self.rows.entry(uid.clone()).or_default();
        if row.busy {
            // Looked at again when the write under way has ended.
            return;
        }
        let step = row.next_step(&self.parts, &pod);
        let now = Instant::now();
        row.note_difference(&step, now);
        let due = match (&step, cause) {
            (Step::Nothing, _) => None,
            // Whoever overwrites a status may do so again; that is answered in measured time.
            (Step::Patch { .. }, Cause::Shown) if row.has_written => row.due,
            (Step::Patch { urgency, gather: true, .. }, Cause::Own | Cause::Shown) => {
                let at = row.due.map_or(now + GATHER, |(_, at)| at.min(now + GATHER));
                Some((*urgency, at))
            }
            (Step::Patch { urgency, .. }, _) => Some((*urgency, now)),
            (Step::Delete { .. }, _) => Some((Urgency::Urgent, now)),
        };
        let due = due.map(|(urgency, at)| (urgency, at.max(row.not_before.unwrap_or(at))));
        if row.due != due {
            if let Some((urgency, at)) = row.due.take() {
                self.queue.remove(&(urgency, at, uid.clone()));
            }
            if let Some((urgency, at)) = due {
                self.queue.insert((urgency, at, uid.clone()));
            }
            row.due = due;
        }
    }

    fn forget(&mut self, uid: &PodUid) {
        if let Some(row) = self.rows.remove(uid)
            && let Some((urgency, at)) = row.due
        {
            self.queue.remove(&(urgency, at, uid.clone()));
        }
        self.names.retain(|_, named| named != uid);
    }

    fn on_shown(&mut self, change: ApiPodChange) {
        let own = match self.names.get(&change.full_name) {
            Some(uid) if self.parts.desired.get(&change.uid).is_none() => uid.clone(),
            Some(_) | None => change.uid,
        };
        if self.rows.contains_key(&own) {
            self.consider(&own, Cause::Shown);
        }
    }

    fn reconcile(&mut self) {
        let known: Vec<PodUid> = self.rows.keys().cloned().collect();
        for uid in &known {
            self.consider(uid, Cause::Reconcile);
        }
    }

    /// When the next write is due and may be made.
    fn next_due(&self) -> Option<Instant> {
        let lanes = [Urgency::Urgent, Urgency::Normal].into_iter().filter(|lane| self.pace.has_room(*lane));
        let firsts = lanes.filter_map(|lane| self.queue.iter().find(|(urgency, ..)| *urgency == lane));
        firsts.map(|(_, at, _)| self.pace.not_before(*at)).min()
    }

    fn start_due(&mut self) {
        let now = Instant::now();
        for lane in [Urgency::Urgent, Urgency::Normal] {
            while self.pace.has_room(lane) && self.pace.not_before(now) <= now {
                let first = self.queue.iter().find(|(urgency, ..)| *urgency == lane);
                let Some(entry) = first.filter(|(_, at, _)| *at <= now).cloned() else { break };
                self.queue.remove(&entry);
                self.start(&entry.2);
            }
        }
    }

    fn start(&mut self, uid: &PodUid) {
        let Some(pod) = self.parts.desired.get(uid) else {
            self.forget(uid);
            return;
        };
        let Some(row) = self.rows.get_mut(uid) else { return };
        row.due = None;
        let step = row.next_step(&self.parts, &pod);
        let Some(write) = row.request(step) else { return };
        row.busy = true;
        self.pace.begun(write.urgency());
        let task = self.writes.spawn(write.make(Arc::clone(&self.parts.pods)));
        self.write_ids.insert(task.id(), uid.clone());
    }

    fn on_ended(&mut self, joined: Result<(tokio::task::Id, Done), tokio::task::JoinError>) {
        let (id, done) = match joined {
            Ok((id, done)) => (id, Some(done)),
            Err(error) => {
                tracing::error!(%error, "a write of a status broke off");
                (error.id(), None)
            }
        };
        let Some(uid) = self.write_ids.remove(&id) else { return };
        let Some(Done { urgency, target, ended }) = done else {
            self.pace.lost();
            if let Some(row) = self.rows.get_mut(&uid) {
                row.busy = false;
            }
            return;
        };
        let again = self.pace.ended(urgency, &ended, self.parts.clock.now());
        if let Some(row) = self.rows.get_mut(&uid) {
            row.busy = false;
            // Only a write that arrived ends the time; others are made again.
            if matches!(ended, Ended::Patched(_))
                && let Some(since) = row.differs_since.take()
            {
                self.parts.metrics.pods.status_sync_duration.observe(since.elapsed().as_secs_f64());
            }
            row.take(&target, ended, again);
            self.consider(&uid, Cause::Own);
        }
    }
}

impl Ended {
    /// Whether the API server was reached and had nothing against the request.
    fn is_answered(&self) -> bool {
        match self {
            Self::Patched(_) | Self::Seen(_) | Self::Deleted | Self::Gone => true,
            Self::Failed(error) => !error.is_transient(),
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
