//! Wiring of what acts when the node runs short.

use std::sync::Arc;

use agent::eviction::{self, Collectors, Parts};
use agent::messages::{KillRequest, ReclaimOrder};
use agent::observation::Observer;
use agent::published::Reader;
use decide::node_status::Pressure;
use model::{Pod, WorkerView};
use ports::event_recorder::EventRecorder;
use ports::pod_statistics::PodStatisticsSource;
use tokio::sync::{mpsc, watch};

use super::{Running, World};
use crate::plan::Plan;

/// Orders that may wait for a collector; there is one who gives them.
const ORDERS: usize = 1;

/// What the rest of the agent lends.
pub(super) struct Tables<'a> {
    pub(super) observer: &'a Observer,
    pub(super) desired: &'a Reader<Pod>,
    pub(super) workers: &'a Reader<WorkerView>,
    pub(super) statistics: Arc<dyn PodStatisticsSource>,
    pub(super) events: &'a Arc<dyn EventRecorder>,
    pub(super) pressure: watch::Sender<Pressure>,
    pub(super) kills: mpsc::UnboundedSender<KillRequest>,
}

/// The collectors' ends.
pub(super) struct Orders {
    pub(super) containers: mpsc::Receiver<ReclaimOrder>,
    pub(super) images: mpsc::Receiver<ReclaimOrder>,
}

/// Starts the stage.
pub(super) fn start_eviction(
    running: &mut Running,
    world: &World,
    plan: &Plan,
    tables: Tables<'_>,
) -> Orders {
    let (containers, container_orders) = mpsc::channel(ORDERS);
    let (images, image_orders) = mpsc::channel(ORDERS);
    let parts = Parts {
        settings: plan.eviction.clone(),
        node: Arc::new(plan.settings.clone()),
        usage: world.usage.clone(),
        disks: world.disk_usage.clone(),
        images: world.runtime.clone(),
        statistics: tables.statistics,
        memory: world.memory_thresholds.clone(),
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        allocations: world.allocations.clone(),
        observer: tables.observer.clone(),
        kills: tables.kills,
        collectors: Collectors { containers, images },
        pressure: tables.pressure,
        events: tables.events.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
    };
    running.spawn("eviction", eviction::run(parts, running.cancel.clone()));
    Orders { containers: container_orders, images: image_orders }
}
