//! Starts the stages that every pod passes through.

use std::future::Future;
use std::sync::Arc;

use agent::cluster::api_pods::ApiPodChange;
use agent::cluster::object_hints;
use agent::dynamic_resources::device_health::DeviceHealth;
use agent::node::node_reports::NodeReports;
use agent::node::node_view::NodeView;
use agent::pipeline::cached_status::CachedStatus;
use agent::pipeline::messages::{ProbeResultChange, WorkerMessage};
use agent::pipeline::observation::Observations;
use agent::pipeline::pod_runtime::PodRuntime;
use agent::pipeline::requeues::RequeueSender;
use agent::pipeline::sync_loop::SyncLoop;
use agent::pipeline::tables::Writer;
use agent::pipeline::{desired, pleg, pod_workers, probes, status, sync_loop};
use decide::status::pod_status::PodStatusNodeInputs;
use model::{PodEvent, PodUid, PodUpdate, ProbeResults, Snapshot, Timestamp, WorkerView};
use ports::served::objects::Objects;
use timing::KeyReceiver;
use tokio::sync::{mpsc, watch};

use super::Running;
use super::channels::{Receivers, Senders};
use super::context::Context;
use super::node_side::start_node_cgroups;
use super::sources::configured_sources;
use super::tables::{TableChanges, TableWriters};

/// Every end of a channel or table that a stage of the pipeline owns.
pub(super) struct PipelineEnds {
    pub(super) senders: Senders,
    pub(super) receivers: Receivers,
    pub(super) writers: TableWriters,
    pub(super) changes: TableChanges,
    pub(super) claimed_devices: Option<Arc<DeviceHealth>>,
}

/// Starts every stage of the pipeline, in the order of the flow.
pub(super) fn start_pipeline(
    running: &mut Running,
    context: &Context,
    ends: PipelineEnds,
    (pod_runtime, objects): (PodRuntime, Arc<dyn Objects>),
    (node, node_reports): (Option<watch::Receiver<NodeView>>, NodeReports),
) {
    let PipelineEnds { senders, receivers, writers, changes, claimed_devices } = ends;
    start_object_hints(running, context, objects, changes.object_hints, senders.requeues.clone());
    start_desired(running, context, receivers.snapshots, senders.snapshots, senders.updates);
    let inputs = sync_loop::SyncLoopInputs {
        updates: receivers.updates,
        events: receivers.events,
        requeues: receivers.requeues,
        probes: receivers.probe_results,
        kills: receivers.kills,
    };
    let (adapters, tables) = (&context.adapters, &context.tables);
    let sync_loop = SyncLoop::new(sync_loop::SyncLoopDeps {
        workers: senders.workers,
        sweeper: senders.sweeps,
        desired: writers.desired,
        worker_views: tables.workers.clone(),
        observer: tables.observer.clone(),
        health: context.health.clone(),
        folders: adapters.folders.clone(),
        logs: adapters.logs.clone(),
        allocations: adapters.allocations.clone(),
        cgroups: adapters.cgroups.clone(),
        sources: configured_sources(context).collect(),
        settings: context.settings.clone(),
        recorder: context.events.clone(),
        node: node.clone(),
        nodes: context.api().map(|api| api.nodes.clone()),
        inputs: Some(node_reports),
        sources_ready: senders.sources_ready,
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        heartbeat: senders.heartbeat,
    });
    running.spawn("allocations", adapters.allocations.clone().run(running.cancel.clone()));
    running.spawn("sync loop", sync_loop.run(inputs, running.cancel.clone()));
    start_probes(running, context, changes.probes, writers.probe_results, senders.probe_results);
    let published = (writers.workers, writers.next_syncs);
    start_pod_workers(running, context, pod_runtime, receivers.workers, published, senders.requeues);
    start_pleg(running, context, writers.observations, senders.events);
    start_node_cgroups(running, context, changes.cgroups);
    let reads = (node, claimed_devices);
    start_status(running, context, reads, (changes.status, changes.api_pods), writers.statuses);
}

/// Wakes the pods that use a ConfigMap or Secret that changed.
fn start_object_hints(
    running: &mut Running,
    context: &Context,
    objects: Arc<dyn Objects>,
    changed_pods: KeyReceiver<PodUid>,
    requeues: RequeueSender,
) {
    let deps = object_hints::ObjectHintsDeps {
        objects,
        changed_pods,
        desired: context.tables.desired.clone(),
        requeues,
    };
    running.spawn("object hints", object_hints::run(deps, running.cancel.clone()));
}

/// Merges the snapshots of all sources. Holds a sender of its input, so that a node without sources waits instead of ending.
fn start_desired(
    running: &mut Running,
    context: &Context,
    snapshots: mpsc::Receiver<Snapshot>,
    snapshot_sender: mpsc::Sender<Snapshot>,
    updates: mpsc::Sender<PodUpdate>,
) {
    let deps = desired::DesiredDeps {
        snapshots,
        updates,
        checkpoints: context.adapters.checkpoints.clone(),
        sources: configured_sources(context).collect(),
        events: context.events.clone(),
        clock: context.adapters.clock.clone(),
    };
    running.spawn("desired", hold(snapshot_sender, desired::run(deps, running.cancel.clone())));
}

/// Keeps a channel's sender alive while a stage runs.
async fn hold<T>(sender: T, stage: impl Future<Output = ()>) {
    stage.await;
    drop(sender);
}

fn start_probes(
    running: &mut Running,
    context: &Context,
    changes: KeyReceiver<PodUid>,
    probe_results: Writer<ProbeResults>,
    result_changes: mpsc::Sender<ProbeResultChange>,
) {
    let (adapters, tables) = (&context.adapters, &context.tables);
    let deps = probes::ProbesDeps {
        changes,
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        observer: tables.observer.clone(),
        runtime: adapters.runtime.clone(),
        outbound: adapters.outbound.clone(),
        probe_results,
        result_changes,
        checkpoints: adapters.checkpoints.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        timelines: context.timelines.clone(),
        host_addresses: context.settings.addresses.clone(),
        gates: context.settings.gates,
        started_at: adapters.clock.now(),
    };
    running.spawn("probes", probes::run(deps, running.cancel.clone()));
}

fn start_pod_workers(
    running: &mut Running,
    context: &Context,
    pod_runtime: PodRuntime,
    messages: mpsc::UnboundedReceiver<WorkerMessage>,
    (views, next_syncs): (Writer<WorkerView>, Writer<Timestamp>),
    requeues: RequeueSender,
) {
    let pod_runtime = Arc::new(pod_runtime);
    let deps = pod_workers::PodWorkersDeps {
        messages,
        run_work: Arc::new(move |work, interrupt| Arc::clone(&pod_runtime).run(work, interrupt)),
        views,
        next_syncs,
        timelines: context.timelines.clone(),
        requeues,
        observer: context.tables.observer.clone(),
        sync_frequency: context.plan.sync_frequency,
        clock: context.adapters.clock.clone(),
        metrics: context.adapters.metrics.clone(),
    };
    running.spawn("pod workers", pod_workers::run(deps, running.cancel.clone()));
}

fn start_pleg(
    running: &mut Running,
    context: &Context,
    observations: Observations,
    events: mpsc::Sender<PodEvent>,
) {
    let adapters = &context.adapters;
    let deps = pleg::PlegDeps {
        runtime: adapters.runtime.clone(),
        processes: adapters.processes.clone(),
        messages: adapters.messages.clone(),
        observations,
        events,
        health: context.health.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        settings: context.plan.pleg,
    };
    running.spawn("pleg", pleg::run(deps, running.cancel.clone()));
}

fn start_status(
    running: &mut Running,
    context: &Context,
    (node, claimed_devices): (Option<watch::Receiver<NodeView>>, Option<Arc<DeviceHealth>>),
    (changes, api_pod_changes): (KeyReceiver<PodUid>, KeyReceiver<ApiPodChange>),
    statuses: Writer<CachedStatus>,
) {
    let (adapters, tables, settings) = (&context.adapters, &context.tables, &context.settings);
    let deps = status::StatusDeps {
        changes,
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        replacements: tables.replacements.clone(),
        allocations: adapters.allocations.clone(),
        claimed_devices,
        observer: tables.observer.clone(),
        statuses,
        probe_results: tables.probe_results.clone(),
        api_pods: tables.api_pods.clone(),
        api_pod_changes,
        health: context.health.clone(),
        cgroups: adapters.cgroups.clone(),
        settings: settings.clone(),
        node: PodStatusNodeInputs {
            addresses: settings.addresses.clone(),
            runtime_name: adapters.runtime_name.clone(),
            shows_stop_signals: settings.container_stop_signals,
            gates: settings.gates,
        },
        api_node: node,
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        timelines: context.timelines.clone(),
    };
    running.spawn("status", status::run(deps, running.cancel.clone()));
}
