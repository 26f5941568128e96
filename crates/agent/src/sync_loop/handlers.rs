//! The handlers. Each one routes; none decides.

use std::sync::Arc;
use std::time::Duration;

use decide::admission::{Arrival, arrival};
use decide::grace::ORPHAN_GRACE_SECONDS;
use decide::housekeeping::{Situation, sweep};
use decide::worker::ends_by_status;
use model::{KillOptions, Pod, PodUid, Rejection, Timestamp, UpdateKind, WorkerCommand, WorkerTarget};
use tokio::time::Instant;

use super::SyncLoop;
use crate::messages::{KillRequest, SweepOrder, WorkerMessage};

/// How long the loop waits for a list of what is on disk. A disk that hangs must not keep pods from starting.
const LONGEST_LIST: Duration = Duration::from_secs(2);

impl SyncLoop {
    /// New pods: oldest first, remembered, admitted or rejected, handed to their workers. Those that an agent before
    /// this one left running come before all others: what they hold is taken.
    pub(super) fn handle_pod_additions(&mut self, mut pods: Vec<Arc<Pod>>) {
        pods.sort_by_key(|pod| (pod.created_at(), pod.first_seen()));
        let arrival = |pod: &Pod| arrival(pod, self.parts.observer.last(&pod.uid).as_deref());
        let (adopted, new): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .map(|pod| (arrival(&pod), pod))
            .partition(|(arrival, _)| *arrival != Arrival::New);
        for (arrival, pod) in adopted {
            self.parts.desired.set(&pod.uid, Arc::clone(&pod));
            if arrival == Arrival::Running {
                self.adopt(&pod);
            }
            self.order(UpdateKind::Create, &pod, None);
        }
        for (_, pod) in new {
            let verdict = self.admit_granted(&pod);
            self.parts.desired.set(&pod.uid, Arc::clone(&pod));
            self.begin(&pod, verdict);
        }
        self.retry_resizes("pods_added");
    }

    /// Changed pods: remembered, handed to their workers.
    pub(super) fn handle_pod_updates(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            let old = self.parts.desired.reader().get(&pod.uid);
            self.parts.desired.set(&pod.uid, Arc::clone(&pod));
            self.note_resize(old.as_deref(), &pod);
            self.note_unmet_features(old.as_deref(), &pod);
            if self.occupancy.contains(&pod.uid) {
                self.occupancy.insert(&self.parts.allocations.granted(&pod));
            }
            if pod.is_deleted() {
                self.let_go(&pod.uid);
            }
            if !self.is_held(&pod.uid) {
                self.order(UpdateKind::Update, &pod, None);
            }
        }
    }

    /// Hands an admitted pod to its worker, or refuses it. One that waits for room is handed on when the room is there,
    /// and one that does not match the node when the node was read again.
    fn begin(&mut self, pod: &Arc<Pod>, verdict: Result<(), Rejection>) {
        match verdict {
            Err(rejection) if self.look_again(pod, &rejection) => {}
            verdict => self.hand_on(pod, verdict),
        }
    }

    /// The same, for good.
    pub(super) fn hand_on(&self, pod: &Arc<Pod>, verdict: Result<(), Rejection>) {
        match verdict {
            Ok(()) if self.is_held(&pod.uid) => {}
            Ok(()) => self.order(UpdateKind::Create, pod, None),
            Err(rejection) => self.reject(pod, rejection),
        }
    }

    /// Whether a pod has no worker yet because it waits for something.
    pub(super) fn is_held(&self, uid: &PodUid) -> bool {
        self.making_room.holds(uid) || self.second_looks.holds(uid)
    }

    /// A pod waits for nothing any more.
    pub(super) fn let_go(&mut self, uid: &PodUid) {
        self.making_room.forget(uid);
        self.second_looks.forget(uid);
    }

    /// Pods that are gone from their source: forgotten, stopped through their workers.
    pub(super) fn handle_pod_removes(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            self.occupancy.remove(&pod.uid);
            self.let_go(&pod.uid);
            self.parts.desired.remove(&pod.uid);
            self.order(UpdateKind::Kill, &pod, None);
        }
        self.retry_resizes("pods_removed");
    }

    /// A pod that the agent itself ends. One that no source wants any more is being ended already.
    pub(super) fn handle_kill(&mut self, request: KillRequest) {
        let Some(pod) = self.parts.desired.reader().get(&request.uid) else { return };
        if let Some(note) = request.eviction {
            self.tell_of_eviction(&pod, note);
        }
        self.occupancy.remove(&pod.uid);
        self.let_go(&pod.uid);
        self.order(UpdateKind::Kill, &pod, Some(request.options));
    }

    /// Pods of which only the status differs: remembered, which has their status looked at again. Their workers need
    /// to know only if somebody else ended them.
    pub(super) fn handle_pod_reconciles(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            self.parts.desired.set(&pod.uid, Arc::clone(&pod));
            if ends_by_status(&pod) {
                self.order(UpdateKind::Sync, &pod, None);
            }
        }
    }

    /// Pods whose runtime side changed: handed to their workers if sources still want them. A pod that nobody
    /// wants is known to its worker alone, which is called again.
    pub(super) fn handle_pod_syncs<'a>(&self, uids: impl IntoIterator<Item = &'a PodUid>) {
        let desired = self.parts.desired.reader();
        for uid in uids {
            match desired.get(uid) {
                Some(pod) => self.order(UpdateKind::Sync, &pod, None),
                None => self.send(WorkerMessage::Retry(uid.clone())),
            }
        }
    }

    /// Pods whose time has come.
    pub(super) fn handle_due(&mut self) {
        for uid in self.due.pop_due(Instant::now()) {
            self.send(WorkerMessage::Retry(uid));
        }
    }

    /// The sweep. Nothing is cleaned up until every source has spoken and the runtime has been listed.
    pub(super) async fn handle_pod_cleanups(&mut self) {
        if !self.ready_sources.is_superset(&self.parts.sources) || !self.parts.observer.has_listed() {
            return;
        }
        let pod_cgroups = self.list_pod_cgroups().await;
        let (pod_folders, log_folders) = tokio::join!(
            listed("pod folders", self.parts.folders.list_pod_folders()),
            listed("log folders", self.parts.logs.list_log_folders()),
        );
        let state = self.sweep_state(&pod_cgroups, &pod_folders, &log_folders);
        if self.idle_sweeps.contains(state) {
            self.keep_same_allocations();
            self.order_sweep(SweepOrder::default());
            return;
        }
        let situation = Situation {
            pod_cgroups,
            desired: self.parts.desired.reader().all(),
            workers: self.parts.worker_views.all(),
            observed: self.parts.observer.all(),
            pod_folders,
            log_folders,
        };
        self.keep_allocations(&situation);
        let sweep = sweep(&situation);
        if sweep.is_empty() {
            self.idle_sweeps.push(state);
        }
        for uid in sweep.forget {
            self.send(WorkerMessage::Forget(uid));
        }
        for pod in sweep.restart {
            // It has no worker as long as it waits.
            if self.is_held(&pod.uid) {
                continue;
            }
            tracing::info!(pod = %pod.full_name, uid = %pod.uid, "starting a pod that no worker knows");
            self.parts.metrics.pods.restarted(pod.is_static());
            // What runs is not asked again: its first order may only not have reached the workers yet.
            if arrival(&pod, self.parts.observer.last(&pod.uid).as_deref()) == Arrival::Running {
                self.adopt(&pod);
                self.order(UpdateKind::Create, &pod, None);
                continue;
            }
            let verdict = self.admit_granted(&pod);
            self.begin(&pod, verdict);
        }
        for pod in sweep.kill {
            tracing::warn!(pod = %pod.full_name, uid = %pod.uid, "stopping a pod that nobody wants");
            self.parts.metrics.pods.orphaned_runtime.inc();
            self.send(WorkerMessage::Command(WorkerCommand {
                kind: UpdateKind::Kill,
                target: WorkerTarget::Orphan(pod),
                kill: Some(KillOptions { grace_override: Some(ORPHAN_GRACE_SECONDS), rejection: None }),
                seen_at: self.now(),
            }));
        }
        self.order_sweep(SweepOrder {
            runtime_pods: sweep.remove,
            pod_folders: sweep.remove_pod_folders,
            log_folders: sweep.remove_log_folders,
            pod_cgroups: sweep.remove_pod_cgroups,
            leftover_cgroups: sweep.reduce_pod_cgroups,
        });
    }

    /// Hands an order to the sweeper. One to do nothing takes back an older one that nobody has begun, and has the sweeper
    /// count nothing.
    fn order_sweep(&self, order: SweepOrder) {
        self.parts.sweeper.send_if_modified(|last| {
            let news = !(last.is_empty() && order.is_empty());
            *last = order;
            news
        });
    }

    pub(super) fn order(&self, kind: UpdateKind, pod: &Arc<Pod>, kill: Option<KillOptions>) {
        self.send(WorkerMessage::Command(WorkerCommand {
            kind,
            target: WorkerTarget::Desired(Arc::clone(pod)),
            kill,
            seen_at: self.now(),
        }));
    }

    fn send(&self, message: WorkerMessage) {
        // Fails only while the agent stops.
        let _ = self.parts.workers.send(message);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }
}

/// A list that could not be read sweeps nothing.
pub(super) async fn listed<T>(
    what: &str,
    list: impl Future<Output = Result<Vec<T>, ports::pod_folders::FileError>>,
) -> Vec<T> {
    match tokio::time::timeout(LONGEST_LIST, list).await {
        Ok(Ok(found)) => return found,
        Ok(Err(error)) => {
            tracing::warn!(%error, source = %error.source, "{what} could not be listed");
        }
        Err(_) => tracing::warn!("{what} could not be listed in time"),
    }
    Vec::new()
}
