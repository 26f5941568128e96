//! Wiring of the machine's end.

use std::sync::Arc;

use agent::messages::KillRequest;
use agent::metrics::ShutdownMetrics;
use agent::node_inputs::NodeReporters;
use agent::node_shutdown;
use agent::published::Reader;
use model::{Pod, WorkerView};
use ports::event_recorder::EventRecorder;
use tokio::sync::{mpsc, watch};

use super::{Running, World};
use crate::plan::Plan;

/// What the rest of the agent lends.
pub(super) struct Shared<'a> {
    pub(super) reporters: &'a NodeReporters,
    pub(super) desired: &'a Reader<Pod>,
    pub(super) workers: &'a Reader<WorkerView>,
    pub(super) sources_ready: watch::Receiver<bool>,
    pub(super) events: &'a Arc<dyn EventRecorder>,
    pub(super) kills: mpsc::UnboundedSender<KillRequest>,
}

/// Starts the stage if pods have time for their end. Must come before the sync loop, which waits for its first word.
pub(super) fn start_shutdown(running: &mut Running, world: &World, plan: &Plan, shared: Shared<'_>) {
    let metrics = plan.shutdown.shows_times.then(|| {
        let metrics = Arc::new(ShutdownMetrics::default());
        world.metrics.add(metrics.clone());
        metrics
    });
    if let Some(periods) = &plan.shutdown.periods {
        shared.reporters.shutdown.send_replace(None);
        let parts = node_shutdown::Parts {
            logind: world.logind.clone(),
            periods: periods.clone(),
            desired: shared.desired.clone(),
            workers: shared.workers.clone(),
            sources_ready: shared.sources_ready,
            kills: shared.kills,
            report: shared.reporters.shutdown.clone(),
            state: world.state_files.clone(),
            metrics,
            node: plan.settings.name.clone(),
            events: shared.events.clone(),
            clock: world.clock.clone(),
        };
        running.spawn("node shutdown", node_shutdown::run(parts, running.cancel.clone()));
    }
}
