//! The sync loop: one `select!` over everything that can concern a pod.
//!
//! | input | what it means | handler |
//! |---|---|---|
//! | configuration changes | a source added, changed or dropped pods | additions, updates, removes, reconciles |
//! | lifecycle events | the runtime changed under a pod | syncs |
//! | requeues, by their due time | a worker asked to be called again | syncs |
//! | probe results | a container's health changed | syncs |
//! | kill requests | the agent itself ends a pod: the machine goes down, or the node runs short | kills |
//! | ends of pods that make room | a critical pod may begin | room |
//! | the node, read again | a pod may match it after all | second looks |
//! | housekeeping, each 2 s | sweep what nobody wants | clean-ups |
//!
//! The handlers only route: choices are made in `decide`, work is done by the pod workers. While the runtime is
//! away the loop pauses, 100 ms doubling to 5 s, and goes on by itself.

mod admission;
mod cgroup_list;
mod due;
mod evictions;
mod handlers;
mod idle_sweeps;
mod making_room;
mod resizes;
mod second_look;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use decide::admission::Occupancy;
use model::{NodeSettings, Operation, Pod, PodEvent, PodEventKind, PodSource, PodUpdate, WorkerView};
use ports::api::nodes::ApiNodes;
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::pod_cgroups::PodCgroups;
use ports::pod_folders::PodFolders;
use ports::pod_logs::PodLogs;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::allocations::Allocations;
use crate::messages::{KillRequest, ProbeKind, ProbeResult, Requeue, SweepOrder, WorkerMessage};
use crate::metrics::Metrics;
use crate::node_inputs::NodeInputs;
use crate::node_view::NodeView;
use crate::observation::Observer;
use crate::published::{Reader, Writer};
use crate::runtime_health::RuntimeHealth;
use due::DueQueue;
use idle_sweeps::IdleSweeps;
use making_room::MakingRoom;
use resizes::PendingResizes;
use second_look::SecondLooks;

/// Time between two sweeps.
const HOUSEKEEPING: Duration = Duration::from_secs(2);
/// First and longest pause while the runtime is away.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// Everything the loop listens to.
pub struct Inputs {
    /// Configuration changes.
    pub updates: mpsc::Receiver<PodUpdate>,
    /// Lifecycle events.
    pub events: mpsc::Receiver<PodEvent>,
    /// Workers that want to be called again.
    pub requeues: mpsc::UnboundedReceiver<Requeue>,
    /// Probe results.
    pub probes: mpsc::Receiver<ProbeResult>,
    /// Pods that the agent itself ends.
    pub kills: mpsc::UnboundedReceiver<KillRequest>,
}

/// Everything the loop speaks to and reads.
pub struct Parts {
    /// The pod workers.
    pub workers: mpsc::UnboundedSender<WorkerMessage>,
    /// The sweeper.
    pub sweeper: watch::Sender<SweepOrder>,
    /// Pods that sources want and the loop has routed.
    pub desired: Writer<Pod>,
    /// How far workers are.
    pub worker_views: Reader<WorkerView>,
    /// What the runtime holds.
    pub observer: Observer,
    /// Whether the runtime answers.
    pub health: RuntimeHealth,
    /// Folders on disk.
    pub folders: Arc<dyn PodFolders>,
    /// Logs on disk.
    pub logs: Arc<dyn PodLogs>,
    /// What was granted to pods.
    pub allocations: Allocations,
    /// Cgroups of pods.
    pub cgroups: Arc<dyn PodCgroups>,
    /// The Node object, where there is an API server.
    pub node: Option<watch::Receiver<NodeView>>,
    /// The Node object as it is now, where there is an API server.
    pub nodes: Option<Arc<dyn ApiNodes>>,
    /// What runs short and whether the machine goes down, where there is somebody to say so.
    pub inputs: Option<NodeInputs>,
    /// Whether every source has spoken.
    pub sources_ready: watch::Sender<bool>,
    /// Configured sources; clean-ups wait for all of them.
    pub sources: BTreeSet<PodSource>,
    /// The node, as admission sees it.
    pub settings: Arc<NodeSettings>,
    /// Events.
    pub recorder: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Last sign of life of the loop.
    pub heartbeat: watch::Sender<Instant>,
}

/// The loop.
pub struct SyncLoop {
    parts: Parts,
    due: DueQueue,
    ready_sources: BTreeSet<PodSource>,
    /// What admitted pods hold of the node.
    occupancy: Occupancy,
    sweeps: u32,
    idle_sweeps: IdleSweeps,
    resizes: PendingResizes,
    making_room: MakingRoom,
    second_looks: SecondLooks,
    /// The node as it was read for the pod at hand.
    fresh_node: Option<NodeView>,
    worker_changes: watch::Receiver<u64>,
}

impl SyncLoop {
    /// A loop over these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            worker_changes: parts.worker_views.changes(),
            parts,
            due: DueQueue::default(),
            ready_sources: BTreeSet::new(),
            occupancy: Occupancy::default(),
            sweeps: 0,
            idle_sweeps: IdleSweeps::default(),
            resizes: PendingResizes::new(),
            making_room: MakingRoom::default(),
            second_looks: SecondLooks::default(),
            fresh_node: None,
        }
    }

    /// Runs until cancelled.
    pub async fn run(mut self, mut inputs: Inputs, cancel: CancellationToken) {
        let mut housekeeping = tokio::time::interval(HOUSEKEEPING);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut health = self.parts.health.subscribe();
        let mut pause = PAUSE_FIRST;
        // A machine that goes down takes no pods, also from an agent that started meanwhile.
        if let Some(facts) = self.parts.inputs.clone() {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = facts.shutdown_known() => {}
            }
        }
        loop {
            if cancel.is_cancelled() {
                return;
            }
            if !health.runtime_is_ready() {
                tracing::debug!(?pause, "the sync loop waits for the container runtime");
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                    () = health.changed() => {}
                }
                pause = (pause * 2).min(PAUSE_LONGEST);
                continue;
            }
            pause = PAUSE_FIRST;
            // Who runs already is known only then: it must not be taken for new, or for over.
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.parts.observer.listed() => {}
                () = health.changed() => continue,
            }
            self.parts.heartbeat.send_replace(Instant::now());
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.iteration(&mut inputs, &mut housekeeping) => {}
                // A runtime that goes away must not wait for the next input to be noticed.
                () = health.changed() => {}
            }
        }
    }

    async fn iteration(&mut self, inputs: &mut Inputs, housekeeping: &mut tokio::time::Interval) {
        let next_due = self.due.next();
        let room_due = self.making_room.next_deadline();
        tokio::select! {
            Some(update) = inputs.updates.recv() => self.on_update(update),
            Some(event) = inputs.events.recv() => self.on_event(&event),
            Some(requeue) = inputs.requeues.recv() => self.due.push(requeue.uid, Instant::now() + requeue.delay),
            Some(request) = inputs.kills.recv() => self.handle_kill(request),
            Some(result) = inputs.probes.recv() => self.on_probe(&result),
            () = sleep_until(next_due) => self.handle_due(),
            () = sleep_until(room_due) => self.handle_room(),
            Ok(()) = self.worker_changes.changed(), if room_due.is_some() => self.handle_room(),
            Some((uid, node)) = self.second_looks.next() => self.handle_second_look(&uid, node),
            _ = housekeeping.tick() => self.handle_pod_cleanups().await,
        }
    }

    fn on_update(&mut self, update: PodUpdate) {
        let (source, operation) = (update.source, update.operation);
        match operation {
            Operation::Add | Operation::Restore | Operation::Set => self.handle_pod_additions(update.pods),
            // A deletion is graceful, so it reaches the worker as an update.
            Operation::Update | Operation::Delete => self.handle_pod_updates(update.pods),
            Operation::Remove => self.handle_pod_removes(update.pods),
            Operation::Reconcile => self.handle_pod_reconciles(update.pods),
        }
        if operation != Operation::Restore && self.ready_sources.insert(source) {
            tracing::info!(%source, "source is ready");
            self.parts.sources_ready.send_replace(self.ready_sources.is_superset(&self.parts.sources));
        }
    }

    fn on_event(&mut self, event: &PodEvent) {
        match &event.kind {
            PodEventKind::Started(_) | PodEventKind::Died(_) => self.handle_pod_syncs([&event.uid]),
            // Nothing to do for the worker: the object is gone already, or its state is unclear.
            PodEventKind::Removed(_) | PodEventKind::Changed(_) => {}
        }
    }

    fn on_probe(&mut self, result: &ProbeResult) {
        match (result.kind, result.success) {
            // A healthy container needs nothing.
            (ProbeKind::Liveness, true) => {}
            (ProbeKind::Liveness, false) | (ProbeKind::Readiness | ProbeKind::Startup, _) => {
                self.handle_pod_syncs([&result.uid]);
            }
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
