//! Starts eviction.

use std::sync::Arc;

use agent::node::node_reports::NodeReportSenders;
use agent::pipeline::messages::{KillRequest, ReclaimOrder};
use agent::upkeep::eviction::{self, Collectors, EvictionDeps};
use ports::served::pod_statistics::PodStatisticsSource;
use tokio::sync::mpsc;

use super::Running;
use super::context::Context;

/// Reclaim orders that may wait for a collector. Eviction is the only sender, and waits for the answer.
const ORDERS: usize = 1;

/// Reclaim orders, for the garbage collectors.
pub(super) struct Orders {
    pub(super) containers: mpsc::Receiver<ReclaimOrder>,
    pub(super) images: mpsc::Receiver<ReclaimOrder>,
}

pub(super) fn start_eviction(
    running: &mut Running,
    context: &Context,
    statistics: Arc<dyn PodStatisticsSource>,
    reporters: &NodeReportSenders,
    kills: mpsc::UnboundedSender<KillRequest>,
) -> Orders {
    let (containers, container_orders) = mpsc::channel(ORDERS);
    let (images, image_orders) = mpsc::channel(ORDERS);
    let (adapters, tables) = (&context.adapters, &context.tables);
    let parts = EvictionDeps {
        settings: context.plan.eviction.clone(),
        node: context.settings.clone(),
        usage: adapters.usage.clone(),
        disks: adapters.disk_usage.clone(),
        images: adapters.runtime.clone(),
        statistics,
        memory: adapters.memory_thresholds.clone(),
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        allocations: adapters.allocations.clone(),
        observer: tables.observer.clone(),
        kills,
        collectors: Collectors { containers, images },
        pressure: reporters.pressure.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
    };
    running.spawn("eviction", eviction::run(parts, running.cancel.clone()));
    Orders { containers: container_orders, images: image_orders }
}
