//! The sync loop: one `select!` over everything that can concern a pod.
//!
//! | input | meaning | handler |
//! |---|---|---|
//! | configuration changes | a source added, changed or dropped pods | additions, updates, removes, reconciles |
//! | lifecycle events | the runtime changed under a pod | syncs |
//! | requeues, when they are due | a worker requested its next sync | syncs |
//! | probe results | a container's health changed | syncs |
//! | kill requests | the agent ends a pod: node shutdown or eviction | kills |
//! | allocations by device plugins | a pod that waited for its devices may start | admissions |
//! | terminated preemption victims | a critical pod may start | preemptions |
//! | terminated removed pods | a pod that lacked CPUs, memory or devices may start | releases |
//! | the Node object, read again | a rejected pod may match the node after all | readmissions |
//! | housekeeping, every 2 s | sweep orphans | cleanups |
//!
//! The handlers only route: decisions are made in `decide`, the pod workers do the work. While the runtime does not
//! answer, the loop pauses with a backoff of 100 ms doubling to 5 s.

mod admission;
mod cgroup_list;
mod handlers;
mod idle_sweeps;
mod pending_admissions;
mod pending_releases;
mod preemption;
mod readmission;
mod resizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::admission::Occupancy;
use model::{NodeSettings, Operation, Pod, PodEvent, PodEventKind, PodSource, PodUid, PodUpdate, WorkerView};
use ports::api::nodes::ApiNodes;
use ports::clock::Clock;
use ports::host::pod_cgroups::PodCgroups;
use ports::host::pod_folders::PodFolders;
use ports::served::event_recorder::EventRecorder;
use ports::served::pod_logs::PodLogs;
use timing::{Backoff, BackoffPolicy, DelayQueue, random, sleep_until};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::node::node_reports::NodeReports;
use crate::node::node_view::NodeView;
use crate::node::runtime_health::RuntimeHealth;
use crate::pipeline::allocations::Allocations;
use crate::pipeline::messages::{KillRequest, ProbeKind, ProbeResultChange, SweepOrder, WorkerMessage};
use crate::pipeline::observation::Observer;
use crate::pipeline::requeues::RequeueReceiver;
use crate::pipeline::tables::{Reader, Writer};
use idle_sweeps::IdleSweeps;
use pending_admissions::PendingAdmissions;
use pending_releases::PendingReleases;
use preemption::PendingPreemptions;
use readmission::PendingReadmissions;
use resizes::PendingResizes;

const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(2);
/// Delay between two checks of a runtime that does not answer.
const RUNTIME_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_secs(5));

pub struct SyncLoopInputs {
    pub updates: mpsc::Receiver<PodUpdate>,
    pub events: mpsc::Receiver<PodEvent>,
    pub requeues: RequeueReceiver,
    pub probes: mpsc::Receiver<ProbeResultChange>,
    pub kills: mpsc::UnboundedReceiver<KillRequest>,
}

pub struct SyncLoopDeps {
    pub workers: mpsc::UnboundedSender<WorkerMessage>,
    pub sweeper: watch::Sender<SweepOrder>,
    /// Desired pods that the loop has routed to their workers.
    pub desired: Writer<Pod>,
    pub worker_views: Reader<WorkerView>,
    pub observer: Observer,
    pub health: RuntimeHealth,
    pub folders: Arc<dyn PodFolders>,
    pub logs: Arc<dyn PodLogs>,
    pub allocations: Allocations,
    pub cgroups: Arc<dyn PodCgroups>,
    /// The watched Node object; `None` without an API server.
    pub node: Option<watch::Receiver<NodeView>>,
    /// Reads the current Node object; `None` without an API server.
    pub nodes: Option<Arc<dyn ApiNodes>>,
    /// Node pressure and shutdown state.
    pub inputs: Option<NodeReports>,
    /// Whether every source has sent its first snapshot.
    pub sources_ready: watch::Sender<bool>,
    /// Configured sources; cleanups wait for all of them.
    pub sources: BTreeSet<PodSource>,
    pub settings: Arc<NodeSettings>,
    pub recorder: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub heartbeat: watch::Sender<Instant>,
}

pub struct SyncLoop {
    deps: SyncLoopDeps,
    requeues: DelayQueue<PodUid>,
    ready_sources: BTreeSet<PodSource>,
    /// Node resources of the admitted pods.
    occupancy: Occupancy,
    sweeps: u32,
    idle_sweeps: IdleSweeps,
    resizes: PendingResizes,
    admissions: PendingAdmissions,
    preemptions: PendingPreemptions,
    readmissions: PendingReadmissions,
    releases: PendingReleases,
    /// The Node object that was read for the pod being readmitted.
    fresh_node: Option<NodeView>,
    worker_changes: watch::Receiver<u64>,
}

impl SyncLoop {
    #[must_use]
    pub fn new(deps: SyncLoopDeps) -> Self {
        Self {
            worker_changes: deps.worker_views.changes(),
            deps,
            requeues: DelayQueue::default(),
            ready_sources: BTreeSet::new(),
            occupancy: Occupancy::default(),
            sweeps: 0,
            idle_sweeps: IdleSweeps::default(),
            resizes: PendingResizes::new(),
            admissions: PendingAdmissions::default(),
            preemptions: PendingPreemptions::default(),
            readmissions: PendingReadmissions::default(),
            releases: PendingReleases::default(),
            fresh_node: None,
        }
    }

    /// Runs until cancelled.
    pub async fn run(self, inputs: SyncLoopInputs, cancel: CancellationToken) {
        cancel.run_until_cancelled(self.run_forever(inputs)).await;
    }

    async fn run_forever(mut self, mut inputs: SyncLoopInputs) {
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING_PERIOD);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut health = self.deps.health.subscribe();
        let mut backoff = Backoff::new(RUNTIME_BACKOFF);
        // A node that shuts down admits no pods, even if the agent starts during the shutdown.
        if let Some(node_inputs) = self.deps.inputs.clone() {
            node_inputs.wait_until_shutdown_known().await;
        }
        loop {
            if !health.runtime_is_ready() {
                let delay = backoff.next(random());
                tracing::debug!(?delay, "container runtime not ready, pausing the sync loop");
                tokio::select! {
                    () = tokio::time::sleep(delay) => {}
                    () = health.changed() => {}
                }
                continue;
            }
            backoff.reset();
            // Before the first relist a running pod would be taken for a new or a terminated one.
            tokio::select! {
                () = self.deps.observer.listed() => {}
                () = health.changed() => continue,
            }
            self.deps.heartbeat.send_replace(Instant::now());
            tokio::select! {
                () = self.iteration(&mut inputs, &mut housekeeping) => {}
                // Leaves the iteration as soon as the runtime fails, not only at the next input.
                () = health.changed() => {}
            }
        }
    }

    async fn iteration(&mut self, inputs: &mut SyncLoopInputs, housekeeping: &mut tokio::time::Interval) {
        let next_due = self.requeues.next_due();
        let preemption_due = self.preemptions.next_deadline();
        tokio::select! {
            Some(update) = inputs.updates.recv() => self.on_update(update),
            Some(event) = inputs.events.recv() => self.on_event(&event),
            due = inputs.requeues.recv() => due.into_iter().for_each(|(uid, at)| self.requeues.set_earliest(uid, at)),
            Some(request) = inputs.kills.recv() => self.handle_kill(request),
            Some(result) = inputs.probes.recv() => self.on_probe(&result),
            () = sleep_until(next_due) => self.handle_requeues(),
            () = sleep_until(preemption_due) => self.handle_preemptions(),
            Ok(()) = self.worker_changes.changed(), if preemption_due.is_some() || !self.releases.is_empty() => {
                self.handle_preemptions();
                self.handle_releases();
            }
            Some(step) = self.admissions.next() => self.handle_admission(step),
            Some((uid, node)) = self.readmissions.next() => self.handle_readmission(&uid, node),
            _ = housekeeping.tick() => self.handle_pod_cleanups().await,
        }
    }

    fn on_update(&mut self, update: PodUpdate) {
        let (source, operation) = (update.source, update.operation);
        match operation {
            Operation::Add | Operation::Restore => self.handle_pod_additions(update.pods),
            // Deletion is graceful, so it reaches the worker as an update.
            Operation::Update | Operation::Delete => self.handle_pod_updates(update.pods),
            Operation::Remove => self.handle_pod_removes(update.pods),
            Operation::Reconcile => self.handle_pod_reconciles(update.pods),
        }
        if operation != Operation::Restore && self.ready_sources.insert(source) {
            tracing::info!(%source, "source is ready");
            self.deps.sources_ready.send_replace(self.ready_sources.is_superset(&self.deps.sources));
        }
    }

    fn on_event(&mut self, event: &PodEvent) {
        match &event.kind {
            PodEventKind::Started(_) | PodEventKind::Died(_) => self.handle_pod_syncs([&event.uid]),
            // The worker has nothing to do: the object was removed, or its state is unknown.
            PodEventKind::Removed(_) | PodEventKind::Changed(_) => {}
        }
    }

    fn on_probe(&mut self, result: &ProbeResultChange) {
        match (result.kind, result.success) {
            // A healthy container needs no sync.
            (ProbeKind::Liveness, true) => {}
            (ProbeKind::Liveness, false) | (ProbeKind::Readiness | ProbeKind::Startup, _) => {
                self.handle_pod_syncs([&result.uid]);
            }
        }
    }
}
