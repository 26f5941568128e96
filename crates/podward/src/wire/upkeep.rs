//! The stages that keep the node tidy by the clock.

use std::sync::Arc;

use agent::observation::Observer;
use agent::published::Reader;
use agent::pull_ledger::PullLedger;
use agent::{container_gc, image_gc, log_rotation, oom_watcher, packet_filter, system_cgroups};
use model::{Pod, WorkerView};
use ports::event_recorder::EventRecorder;

use super::eviction::Orders;
use super::{Running, World};
use crate::plan::Plan;

/// What the collectors read.
pub(super) struct Tables<'a> {
    pub(super) observer: &'a Observer,
    pub(super) desired: &'a Reader<Pod>,
    pub(super) workers: &'a Reader<WorkerView>,
    pub(super) ledger: Option<Arc<PullLedger>>,
    pub(super) orders: Orders,
}

/// Starts the collectors of containers and images, the rotation of logs, the watcher of the machine's memory, and the
/// keepers of the system's cgroups and the packet filter.
pub(super) fn start_upkeep(
    running: &mut Running,
    world: &World,
    plan: &Plan,
    tables: Tables<'_>,
    events: &Arc<dyn EventRecorder>,
) {
    let Tables { observer, desired, workers, ledger, orders } = tables;
    let parts = container_gc::Parts {
        runtime: world.runtime.clone(),
        logs: world.logs.clone(),
        observer: observer.clone(),
        clock: world.clock.clone(),
        node: plan.settings.name.clone(),
        events: events.clone(),
        policy: plan.upkeep.containers,
        workers: workers.clone(),
        orders: orders.containers,
    };
    running.spawn("container collector", container_gc::run(parts, running.cancel.clone()));
    let parts = image_gc::Parts {
        runtime: world.runtime.clone(),
        filesystems: world.filesystems.clone(),
        observer: observer.clone(),
        desired: desired.clone(),
        checkpoints: world.checkpoints.clone(),
        events: events.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        node: plan.settings.name.clone(),
        ledger,
        policy: plan.upkeep.images,
        orders: orders.images,
    };
    running.spawn("image collector", image_gc::run(parts, running.cancel.clone()));
    let parts = log_rotation::Parts {
        runtime: world.runtime.clone(),
        logs: world.rotated_logs.clone(),
        observer: observer.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        settings: plan.upkeep.logs,
    };
    running.spawn("log rotation", log_rotation::run(parts, running.cancel.clone()));
    let parts = oom_watcher::Parts {
        log: world.kernel_log.clone(),
        node: plan.settings.name.clone(),
        events: events.clone(),
        clock: world.clock.clone(),
    };
    running.spawn("oom watcher", oom_watcher::run(parts, running.cancel.clone()));
    if !plan.system_cgroups.is_empty() {
        let (cgroups, wanted) = (world.system_cgroups.clone(), plan.system_cgroups.clone());
        running.spawn("system cgroups", system_cgroups::run(cgroups, wanted, running.cancel.clone()));
    }
    if plan.upkeep.packet_filter {
        let kept = packet_filter::run(world.packet_filter.clone(), running.cancel.clone());
        running.spawn("packet filter", kept);
    }
}
