//! The channels along the flow of a pod.

use agent::pipeline::messages::{KillRequest, ProbeResultChange, SweepOrder, WorkerMessage};
use agent::pipeline::requeues::{RequeueReceiver, RequeueSender, requeues};
use model::local_api::FileReport;
use model::{PodEvent, PodUpdate, Snapshot};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Snapshots that may wait for the merge.
const SNAPSHOTS: usize = 8;
/// Pod updates that may wait for the sync loop.
const UPDATES: usize = 50;
/// Lifecycle events and probe results that may wait for the sync loop.
const EVENTS: usize = 1000;

/// The sending ends.
pub(super) struct Senders {
    pub(super) snapshots: mpsc::Sender<Snapshot>,
    pub(super) updates: mpsc::Sender<PodUpdate>,
    pub(super) events: mpsc::Sender<PodEvent>,
    pub(super) workers: mpsc::UnboundedSender<WorkerMessage>,
    pub(super) requeues: RequeueSender,
    pub(super) probe_results: mpsc::Sender<ProbeResultChange>,
    pub(super) kills: mpsc::UnboundedSender<KillRequest>,
    pub(super) sweeps: watch::Sender<SweepOrder>,
    pub(super) heartbeat: watch::Sender<Instant>,
    pub(super) file_reports: watch::Sender<Vec<FileReport>>,
    pub(super) sources_ready: watch::Sender<bool>,
}

/// The receiving ends.
pub(super) struct Receivers {
    pub(super) snapshots: mpsc::Receiver<Snapshot>,
    pub(super) updates: mpsc::Receiver<PodUpdate>,
    pub(super) events: mpsc::Receiver<PodEvent>,
    pub(super) workers: mpsc::UnboundedReceiver<WorkerMessage>,
    pub(super) requeues: RequeueReceiver,
    pub(super) probe_results: mpsc::Receiver<ProbeResultChange>,
    pub(super) kills: mpsc::UnboundedReceiver<KillRequest>,
    pub(super) sweeps: watch::Receiver<SweepOrder>,
    pub(super) heartbeat: watch::Receiver<Instant>,
    pub(super) file_reports: watch::Receiver<Vec<FileReport>>,
    pub(super) sources_ready: watch::Receiver<bool>,
}

pub(super) fn channels() -> (Senders, Receivers) {
    let (snapshot_sender, snapshots) = mpsc::channel(SNAPSHOTS);
    let (update_sender, updates) = mpsc::channel(UPDATES);
    let (event_sender, events) = mpsc::channel(EVENTS);
    // Unbounded, because the sync loop must not wait for the workers that wait for it: the workers only update their state
    // machines with a message, so the queue is empty again after each turn of their loop.
    let (worker_sender, workers) = mpsc::unbounded_channel();
    let (requeue_sender, requeues) = requeues();
    let (result_sender, probe_results) = mpsc::channel(EVENTS);
    // Unbounded: eviction and node shutdown send at most one request per pod that still runs.
    let (kill_sender, kills) = mpsc::unbounded_channel();
    let (sweep_sender, sweeps) = watch::channel(SweepOrder::default());
    let (heartbeat_sender, heartbeat) = watch::channel(Instant::now());
    let (report_sender, file_reports) = watch::channel(Vec::new());
    let (ready_sender, sources_ready) = watch::channel(false);
    let senders = Senders {
        snapshots: snapshot_sender,
        updates: update_sender,
        events: event_sender,
        workers: worker_sender,
        requeues: requeue_sender,
        probe_results: result_sender,
        kills: kill_sender,
        sweeps: sweep_sender,
        heartbeat: heartbeat_sender,
        file_reports: report_sender,
        sources_ready: ready_sender,
    };
    let receivers = Receivers {
        snapshots,
        updates,
        events,
        workers,
        requeues,
        probe_results,
        kills,
        sweeps,
        heartbeat,
        file_reports,
        sources_ready,
    };
    (senders, receivers)
}
