//! Starts graceful node shutdown.

use std::sync::Arc;

use agent::metrics::ShutdownMetrics;
use agent::node::node_reports::NodeReportSenders;
use agent::node::node_shutdown;

use super::Running;
use super::channels::{Receivers, Senders};
use super::context::Context;

/// Starts the stage if grace periods are configured. Must come before the sync loop, which waits for the stage's first report.
pub(super) fn start_shutdown(
    running: &mut Running,
    context: &Context,
    reporters: &NodeReportSenders,
    senders: &Senders,
    receivers: &Receivers,
) {
    let (adapters, plan) = (&context.adapters, &context.plan.shutdown);
    let metrics = plan.exports_times.then(|| {
        let metrics = Arc::new(ShutdownMetrics::default());
        adapters.metrics.add(metrics.clone());
        metrics
    });
    let Some(periods) = &plan.periods else { return };
    reporters.shutdown.send_replace(None);
    let deps = node_shutdown::NodeShutdownDeps {
        logind: adapters.logind.clone(),
        periods: periods.clone(),
        desired: context.tables.desired.clone(),
        workers: context.tables.workers.clone(),
        sources_ready: receivers.sources_ready.clone(),
        kills: senders.kills.clone(),
        report: reporters.shutdown.clone(),
        state: adapters.state_files.clone(),
        metrics,
        node: context.settings.name.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
    };
    running.spawn("node shutdown", node_shutdown::run(deps, running.cancel.clone()));
}
