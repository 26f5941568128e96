//! Starts the stages that clean up and maintain the node.

use std::sync::Arc;

use agent::images::pull_ledger::PullLedger;
use agent::node::{cpu_reconciler, oom_watcher, packet_filter, system_cgroups};
use agent::pipeline::messages::SweepOrder;
use agent::upkeep::sweep_claims::{SweepClaims, SweepGuard};
use agent::upkeep::{container_gc, image_gc, log_rotation, sweeper};
use tokio::sync::watch;

use super::Running;
use super::context::Context;
use super::eviction::Orders;
use super::volumes::Volumes;

/// Starts garbage collection of containers and images, log rotation, the CPU reconciler, the OOM watcher, and the maintenance of system cgroups
/// and the packet filter.
pub(super) fn start_upkeep(
    running: &mut Running,
    context: &Context,
    ledger: Option<Arc<PullLedger>>,
    orders: Orders,
) {
    let (adapters, plan, tables) = (&context.adapters, &context.plan, &context.tables);
    let parts = container_gc::ContainerGcDeps {
        runtime: adapters.runtime.clone(),
        logs: adapters.logs.clone(),
        observer: tables.observer.clone(),
        clock: adapters.clock.clone(),
        node: context.settings.name.clone(),
        events: context.events.clone(),
        policy: plan.upkeep.containers,
        workers: tables.workers.clone(),
        orders: orders.containers,
    };
    running.spawn("container collector", container_gc::run(parts, running.cancel.clone()));
    let parts = image_gc::ImageGcDeps {
        runtime: adapters.runtime.clone(),
        filesystems: adapters.filesystems.clone(),
        observer: tables.observer.clone(),
        desired: tables.desired.clone(),
        checkpoints: adapters.checkpoints.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        node: context.settings.name.clone(),
        ledger,
        policy: plan.upkeep.images,
        orders: orders.images,
    };
    running.spawn("image collector", image_gc::run(parts, running.cancel.clone()));
    let parts = log_rotation::LogRotationDeps {
        runtime: adapters.runtime.clone(),
        logs: adapters.rotated_logs.clone(),
        observer: tables.observer.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        settings: plan.upkeep.logs,
    };
    running.spawn("log rotation", log_rotation::run(parts, running.cancel.clone()));
    let deps = cpu_reconciler::CpuReconcilerDeps {
        cpus: adapters.allocations.cpus().clone(),
        memory: adapters.allocations.managed().memory().clone(),
        runtime: adapters.runtime.clone(),
        desired: tables.desired.clone(),
        observer: tables.observer.clone(),
        period: plan.cpu_reconcile_period,
    };
    running.spawn("CPU reconciler", cpu_reconciler::run(deps, running.cancel.clone()));
    let deps = oom_watcher::OomWatcherDeps {
        log: adapters.kernel_log.clone(),
        node: context.settings.name.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
    };
    running.spawn("oom watcher", oom_watcher::run(deps, running.cancel.clone()));
    if !plan.system_cgroups.is_empty() {
        let (cgroups, desired) = (adapters.system_cgroups.clone(), plan.system_cgroups.clone());
        running.spawn("system cgroups", system_cgroups::run(cgroups, desired, running.cancel.clone()));
    }
    if plan.upkeep.packet_filter {
        let maintain = packet_filter::run(adapters.packet_filter.clone(), running.cancel.clone());
        running.spawn("packet filter", maintain);
    }
}

/// Starts the cleanup of orphans.
pub(super) fn start_sweeper(
    running: &mut Running,
    context: &Context,
    volumes: &Volumes,
    orders: watch::Receiver<SweepOrder>,
    sweeping: SweepClaims,
) {
    let (adapters, tables) = (&context.adapters, &context.tables);
    let parts = sweeper::SweeperDeps {
        runtime: adapters.runtime.clone(),
        folders: adapters.folders.clone(),
        volumes: volumes.volumes.clone(),
        logs: adapters.logs.clone(),
        cgroups: adapters.cgroups.clone(),
        guard: SweepGuard { desired: tables.desired.clone(), workers: tables.workers.clone() },
        sweeping,
        observer: tables.observer.clone(),
        metrics: adapters.metrics.clone(),
    };
    running.spawn("sweeper", sweeper::run(parts, orders, running.cancel.clone()));
}
