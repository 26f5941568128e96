//! The handlers of the sync loop. They route and make no decisions.

use std::sync::Arc;
use std::time::Duration;

use decide::admission::{PodArrival, classify_arrival};
use decide::eviction::{EVICTED, EvictionNote};
use decide::pipeline::grace::ORPHAN_GRACE_SECONDS;
use decide::pipeline::housekeeping::{HousekeepingInputs, sweep};
use decide::status::status_report::is_terminal;
use model::{
    EventSubject, EventType, KillOptions, Pod, PodUid, RecordedEvent, Rejection, Timestamp, UpdateKind,
    WorkerCommand, WorkerTarget,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::SyncLoop;
use super::pending_admissions::AdmissionAttempt;
use crate::pipeline::messages::{KillRequest, SweepOrder, WorkerMessage};

/// Timeout of listing folders and cgroups. A disk that hangs must not keep pods from starting.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

impl SyncLoop {
    /// Publishes new pods, oldest first, admits or rejects them, and sends them to their workers. Pods that already run are
    /// adopted before all others, because their resources are in use.
    pub(super) fn handle_pod_additions(&mut self, mut pods: Vec<Arc<Pod>>) {
        pods.sort_by_key(|pod| (pod.created_at(), pod.first_seen()));
        let arrival = |pod: &Pod| classify_arrival(pod, self.deps.observer.last(&pod.uid).as_deref());
        let (adopted, new): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .map(|pod| (arrival(&pod), pod))
            .partition(|(arrival, _)| *arrival != PodArrival::New);
        for (arrival, pod) in adopted {
            self.deps.desired.set(&pod.uid, Arc::clone(&pod));
            if arrival == PodArrival::Running {
                self.adopt(&pod);
            }
            self.send_command(UpdateKind::Create, &pod, None);
        }
        for (_, pod) in new {
            let admission = self.admit_allocated(&pod, AdmissionAttempt::First);
            self.deps.desired.set(&pod.uid, Arc::clone(&pod));
            if let Some(admission) = admission {
                self.dispatch_or_defer(&pod, admission);
            }
        }
        self.retry_resizes("pods_added");
    }

    /// Publishes changed pods and sends them to their workers.
    pub(super) fn handle_pod_updates(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            let old = self.deps.desired.reader().get(&pod.uid);
            self.deps.desired.set(&pod.uid, Arc::clone(&pod));
            self.handle_resize(old.as_deref(), &pod);
            self.warn_missing_features(old.as_deref(), &pod);
            if self.occupancy.contains(&pod.uid) {
                self.occupancy.insert(&self.deps.allocations.allocated(&pod));
            }
            if pod.is_deleted() {
                self.cancel_waits(&pod.uid);
            }
            if !self.is_waiting(&pod.uid) {
                self.send_command(UpdateKind::Update, &pod, None);
            }
        }
    }

    /// Sends an admitted pod to its worker, or rejects it. A pod that does not match the node is decided after the Node
    /// object was read again.
    pub(super) fn dispatch_or_defer(&mut self, pod: &Arc<Pod>, admission: Result<(), Rejection>) {
        match admission {
            Err(rejection) if self.defer_for_readmission(pod, &rejection) => {}
            admission => self.dispatch_or_wait(pod, admission),
        }
    }

    /// Like [`Self::dispatch`], but a pod that lacks resources waits for removed pods that still use some.
    pub(super) fn dispatch_or_wait(&mut self, pod: &Arc<Pod>, admission: Result<(), Rejection>) {
        match admission {
            Err(rejection) if self.defer_for_release(&pod.uid, &rejection) => {}
            admission => self.dispatch(pod, admission),
        }
    }

    /// Sends an admitted pod to its worker, or rejects it. A pod that waits for preemption victims is sent later.
    pub(super) fn dispatch(&self, pod: &Arc<Pod>, admission: Result<(), Rejection>) {
        match admission {
            Ok(()) if self.is_waiting(&pod.uid) => {}
            Ok(()) => self.send_command(UpdateKind::Create, pod, None),
            Err(rejection) => self.reject(pod, rejection),
        }
    }

    /// Whether a pod has no worker yet because it waits for devices, for preemption victims, for readmission or for removed pods.
    pub(super) fn is_waiting(&self, uid: &PodUid) -> bool {
        self.admissions.holds(uid)
            || self.preemptions.holds(uid)
            || self.readmissions.holds(uid)
            || self.releases.holds(uid)
    }

    /// Drops a pod from all waits before its start.
    pub(super) fn cancel_waits(&mut self, uid: &PodUid) {
        self.admissions.remove(uid);
        self.preemptions.remove(uid);
        self.readmissions.remove(uid);
        self.releases.remove(uid);
    }

    /// Removes pods that their source no longer has, and stops them through their workers.
    pub(super) fn handle_pod_removes(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            self.occupancy.remove(&pod.uid);
            self.cancel_waits(&pod.uid);
            self.deps.desired.remove(&pod.uid);
            self.send_command(UpdateKind::Kill, &pod, None);
        }
        self.retry_resizes("pods_removed");
    }

    /// Kills a pod for eviction or shutdown. A pod that is not desired is already terminating.
    pub(super) fn handle_kill(&mut self, request: KillRequest) {
        let Some(pod) = self.deps.desired.reader().get(&request.uid) else { return };
        if let Some(EvictionNote { message, annotations }) = request.eviction {
            tracing::warn!(pod = %pod.full_name, %message, "evicting pod");
            let subject = EventSubject::pod(&pod, String::new());
            let event = RecordedEvent::new(subject, EventType::Warning, EVICTED, message, self.now());
            self.deps.recorder.record(RecordedEvent { annotations, ..event });
        }
        self.occupancy.remove(&pod.uid);
        self.cancel_waits(&pod.uid);
        self.send_command(UpdateKind::Kill, &pod, Some(request.options));
    }

    /// Publishes pods of which only the status differs, so that the status stage compares it. The worker is notified only
    /// if the status has a terminal phase.
    pub(super) fn handle_pod_reconciles(&mut self, pods: Vec<Arc<Pod>>) {
        for pod in pods {
            self.deps.desired.set(&pod.uid, Arc::clone(&pod));
            if is_terminal(&pod.status) {
                self.send_command(UpdateKind::Sync, &pod, None);
            }
        }
    }

    /// Syncs pods whose runtime state changed. A pod that is no longer desired is known only to its worker, so the worker
    /// retries on its own state.
    pub(super) fn handle_pod_syncs<'a>(&self, uids: impl IntoIterator<Item = &'a PodUid>) {
        let desired = self.deps.desired.reader();
        for uid in uids {
            match desired.get(uid) {
                Some(pod) => self.send_command(UpdateKind::Sync, &pod, None),
                None => self.send(WorkerMessage::Retry(uid.clone())),
            }
        }
    }

    /// Retries the pods whose requeue is due.
    pub(super) fn handle_requeues(&mut self) {
        let now = Instant::now();
        while let Some(uid) = self.requeues.pop_due(now) {
            self.send(WorkerMessage::Retry(uid));
        }
    }

    /// Runs one sweep. Does nothing until every source has sent a snapshot and the runtime has been listed.
    pub(super) async fn handle_pod_cleanups(&mut self) {
        if !self.ready_sources.is_superset(&self.deps.sources) || !self.deps.observer.has_listed() {
            return;
        }
        let pod_cgroups = self.list_pod_cgroups().await;
        let (pod_folders, log_folders) = tokio::join!(
            list_or_empty("pod folders", self.deps.folders.list_pod_folders()),
            list_or_empty("log folders", self.deps.logs.list_log_folders()),
        );
        let state = self.sweep_state(&pod_cgroups, &pod_folders, &log_folders);
        if self.idle_sweeps.contains(state) {
            self.retry_resizes_when_idle();
            self.send_sweep(SweepOrder::default());
            return;
        }
        self.flush_workers().await;
        let inputs = HousekeepingInputs {
            pod_cgroups,
            desired: self.deps.desired.reader().all(),
            workers: self.deps.worker_views.all(),
            observed: self.deps.observer.all(),
            pod_folders,
            log_folders,
        };
        self.sweep_allocations(&inputs);
        let sweep = sweep(&inputs);
        if sweep.is_empty() {
            self.idle_sweeps.push(state);
        }
        for uid in sweep.drop_workers {
            self.send(WorkerMessage::Remove(uid));
        }
        for pod in sweep.restart {
            // A waiting pod has no worker yet.
            if self.is_waiting(&pod.uid) {
                continue;
            }
            tracing::info!(pod = %pod.full_name, uid = %pod.uid, "starting desired pod without a worker");
            self.deps.metrics.pods.restarted(pod.is_static());
            // A running pod is not admitted again.
            if classify_arrival(&pod, self.deps.observer.last(&pod.uid).as_deref()) == PodArrival::Running {
                self.adopt(&pod);
                self.send_command(UpdateKind::Create, &pod, None);
                continue;
            }
            if let Some(admission) = self.admit_allocated(&pod, AdmissionAttempt::First) {
                self.dispatch_or_defer(&pod, admission);
            }
        }
        for pod in sweep.kill {
            tracing::warn!(pod = %pod.full_name, uid = %pod.uid, "stopping orphaned pod");
            self.deps.metrics.pods.orphaned_runtime.inc();
            self.send(WorkerMessage::Command(WorkerCommand {
                kind: UpdateKind::Kill,
                target: WorkerTarget::Orphan(pod),
                kill: Some(KillOptions { grace_override: Some(ORPHAN_GRACE_SECONDS), rejection: None }),
                seen_at: self.now(),
            }));
        }
        self.send_sweep(SweepOrder {
            runtime_pods: sweep.remove,
            pod_folders: sweep.remove_pod_folders,
            log_folders: sweep.remove_log_folders,
            pod_cgroups: sweep.remove_pod_cgroups,
            reduced_cgroups: sweep.reduce_pod_cgroups,
        });
    }

    /// Sends an order to the sweeper. An empty order replaces an older one that the sweeper has not started, and is sent
    /// once only.
    fn send_sweep(&self, order: SweepOrder) {
        self.deps.sweeper.send_if_modified(|last| {
            let changed = !(last.is_empty() && order.is_empty());
            *last = order;
            changed
        });
    }

    /// Waits until the published views show the effect of every command that was sent. Otherwise a pod whose first command
    /// is under way would look like one without a worker.
    async fn flush_workers(&self) {
        let (reply, flushed) = oneshot::channel();
        self.send(WorkerMessage::Flush(reply));
        // Fails only while the agent stops.
        let _ = flushed.await;
    }

    pub(super) fn send_command(&self, kind: UpdateKind, pod: &Arc<Pod>, kill: Option<KillOptions>) {
        self.send(WorkerMessage::Command(WorkerCommand {
            kind,
            target: WorkerTarget::Desired(Arc::clone(pod)),
            kill,
            seen_at: self.now(),
        }));
    }

    fn send(&self, message: WorkerMessage) {
        // Fails only while the agent stops.
        let _ = self.deps.workers.send(message);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.deps.clock.now()
    }
}

/// Returns an empty list on failure, so that the sweep removes nothing.
pub(super) async fn list_or_empty<T>(
    what: &str,
    list: impl Future<Output = Result<Vec<T>, ports::host::pod_folders::FileError>>,
) -> Vec<T> {
    match tokio::time::timeout(LIST_TIMEOUT, list).await {
        Ok(Ok(found)) => return found,
        Ok(Err(error)) => {
            tracing::warn!(%error, source = %error.source, "failed to list {what}, skipping them in this sweep");
        }
        Err(_) => {
            tracing::warn!(timeout = ?LIST_TIMEOUT, "listing {what} timed out, skipping them in this sweep");
        }
    }
    Vec::new()
}
