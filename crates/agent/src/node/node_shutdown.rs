//! Graceful node shutdown: when the machine shuts down, the node becomes not ready and admits no pods, and its pods are
//! terminated in the order of their priority while an inhibitor lock delays the shutdown.
//!
//! Input: signals from logind ([`logind_watcher`]). Output: kill requests to the sync loop, one group of pods after the other
//! ([`pod_termination`]), the shutdown state (`node_reports`), events on the node, and a file on disk ([`state_file`]).
//! Every start queries logind for a shutdown in progress, so an agent that was restarted meanwhile continues it.

mod logind_watcher;
mod pod_termination;
mod state_file;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use decide::admission::Shutdown;
use decide::node::node_shutdown::{EVENT, ShutdownOnset, ShutdownPeriods};
use futures::future::BoxFuture;
use model::{EventSubject, EventType, Pod, RecordedEvent, WorkerView};
use ports::clock::Clock;
use ports::host::checkpoints::Checkpoints;
use ports::host::logind::{InhibitorLock, Logind};
use ports::served::event_recorder::EventRecorder;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::metrics::ShutdownMetrics;
use crate::pipeline::messages::KillRequest;
use crate::pipeline::tables::Reader;
use logind_watcher::{LogindEvent, LogindWatcher};
use pod_termination::PodTermination;

/// How long the start of pods waits for the first answer from logind.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub struct NodeShutdownDeps {
    pub logind: Arc<dyn Logind>,
    pub periods: ShutdownPeriods,
    pub desired: Reader<Pod>,
    pub workers: Reader<WorkerView>,
    /// Whether every source has delivered.
    pub sources_ready: watch::Receiver<bool>,
    pub kills: mpsc::UnboundedSender<KillRequest>,
    /// The published shutdown state.
    pub report: watch::Sender<Option<Shutdown>>,
    /// Files in upstream's format.
    pub state: Arc<dyn Checkpoints>,
    /// Times of the last shutdown, which are also saved on disk; `None` with `GracefulNodeShutdownBasedOnPodPriority` off.
    pub metrics: Option<Arc<ShutdownMetrics>>,
    pub node: String,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled, and then releases the inhibitor lock.
pub async fn run(deps: NodeShutdownDeps, cancel: CancellationToken) {
    let stage = Stage { deps: &deps, lock: None, activity: Activity::Idle };
    cancel.run_until_cancelled(stage.run()).await;
}

struct Stage<'a> {
    deps: &'a NodeShutdownDeps,
    lock: Option<InhibitorLock>,
    activity: Activity<'a>,
}

enum Activity<'a> {
    Idle,
    /// Pods are being terminated, group by group.
    TerminatingPods(BoxFuture<'a, Vec<PodTermination>>),
    /// The grace periods of all groups are over; pods that still run are reported as late.
    ReportingLatePods(BoxFuture<'a, ()>),
}

enum Progress {
    PodsTerminated(Vec<PodTermination>),
    LatePodsReported,
}

impl Activity<'_> {
    async fn next(&mut self) -> Progress {
        match self {
            Self::Idle => std::future::pending().await,
            Self::TerminatingPods(terminations) => Progress::PodsTerminated(terminations.await),
            Self::ReportingLatePods(report) => {
                report.await;
                Progress::LatePodsReported
            }
        }
    }
}

impl Stage<'_> {
    async fn run(mut self) {
        self.deps.export_saved_times().await;
        // Unbounded: this task polls both ends, so a full channel would deadlock.
        let (sender, mut events) = mpsc::unbounded_channel();
        let watcher = LogindWatcher {
            logind: &*self.deps.logind,
            required_delay: self.deps.periods.total(),
            events: sender,
        };
        let mut watch = std::pin::pin!(watcher.run());
        let mut first_answer = std::pin::pin!(tokio::time::sleep(FIRST_ANSWER_TIMEOUT));
        loop {
            let is_known = self.deps.report.borrow().is_some();
            tokio::select! {
                () = &mut watch => return,
                Some(event) = events.recv() => self.handle(event).await,
                progress = self.activity.next() => self.advance(progress),
                () = &mut first_answer, if !is_known => self.publish(Shutdown::None),
            }
        }
    }

    async fn handle(&mut self, event: LogindEvent) {
        let is_shutting_down = *self.deps.report.borrow() == Some(Shutdown::Imminent);
        match event {
            LogindEvent::Armed(lock) => {
                self.lock = Some(lock);
                if is_shutting_down {
                    tracing::info!("shutdown was cancelled while logind was unreachable");
                    self.cancel_shutdown().await;
                } else {
                    self.publish(Shutdown::None);
                }
            }
            // Repeated signals have no effect.
            LogindEvent::Imminent(_) if is_shutting_down => {}
            LogindEvent::Imminent(onset) => self.begin(onset),
            LogindEvent::Cancelled => {
                self.record_event("Shutdown manager detected shutdown cancellation");
                if is_shutting_down {
                    tracing::info!("shutdown was cancelled");
                    self.cancel_shutdown().await;
                }
            }
            LogindEvent::Unreachable if self.deps.report.borrow().is_none() => self.publish(Shutdown::None),
            LogindEvent::Unreachable => {}
        }
    }

    fn begin(&mut self, onset: ShutdownOnset) {
        tracing::warn!(?onset, "shutdown detected, terminating pods");
        self.record_event("Shutdown manager detected shutdown event");
        self.publish(Shutdown::Imminent);
        self.activity = Activity::TerminatingPods(Box::pin(self.deps.terminate_pods(onset)));
    }

    /// Pods of later groups continue to run.
    async fn cancel_shutdown(&mut self) {
        if let Activity::TerminatingPods(terminations) = std::mem::replace(&mut self.activity, Activity::Idle)
        {
            drop(terminations);
            self.deps.save_end().await;
        }
        self.publish(Shutdown::None);
    }

    fn advance(&mut self, progress: Progress) {
        match progress {
            Progress::PodsTerminated(terminations) => {
                tracing::info!("pod termination is complete, releasing the inhibitor lock");
                self.lock = None;
                self.activity =
                    Activity::ReportingLatePods(Box::pin(self.deps.report_late_pods(terminations)));
            }
            Progress::LatePodsReported => self.activity = Activity::Idle,
        }
    }

    fn publish(&self, shutdown: Shutdown) {
        self.deps.report.send_if_modified(|current| current.replace(shutdown) != Some(shutdown));
    }

    fn record_event(&self, message: &str) {
        let subject = EventSubject::Node(self.deps.node.clone());
        let now = self.deps.clock.now();
        self.deps.events.record(RecordedEvent::new(subject, EventType::Normal, EVENT, message, now));
    }
}
