//! All wiring, no logic: the stages, the channels between them, and the tables they publish.

mod api_server;
mod debugging;
mod eviction;
mod local;
mod metrics;
mod node_api;
mod node_shutdown;
mod node_side;
mod pod_resources;
mod pod_runtime;
mod pulls;
mod sources;
mod statistics;
mod supplies;
mod upkeep;
mod volumes;
mod world;

pub use api_server::ApiServer;
pub use local::{LocalDoor, SOCKET};
pub use node_api::Serving;
pub use volumes::PluginPorts;
pub use world::World;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ::node_api::{LocalParts, Views};
use agent::event_delivery::EventDelivery;
use agent::event_log::EventLog;
use agent::objects::LocalObjects;
use agent::observation::observations;
use agent::pod_gauges::PodGauges;
use agent::pod_resources::PublishedResources;
use agent::published::table;
use agent::sweeping::{Sweeping, Wanted};
use agent::sync_loop::SyncLoop;
use agent::timeline::Timelines;
use agent::tokens::Tokens;
use agent::{
    desired, event_delivery, node_cgroups, node_inputs, object_hints, objects, pleg, pod_workers, probes,
    runtime_health, status, sweeper, sync_loop,
};
use decide::pod_status::NodeFacts;
use model::{PodSource, Snapshot};
use ports::event_recorder::EventRecorder;
use ports::objects::Objects;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::plan::Plan;
use pod_runtime::{Tables, pod_runtime};
use sources::{Wants, configured_sources, start_sources};
use upkeep::start_upkeep;
use volumes::NodeLinks;

/// Configuration changes that may wait for the sync loop.
const UPDATES: usize = 50;
/// Lifecycle events that may wait for the sync loop.
const EVENTS: usize = 1000;
/// Events kept for users.
const KEPT_EVENTS: usize = 1000;

/// A running agent.
pub struct Running {
    /// What the servers show.
    pub views: Views,
    /// What the local socket shows.
    pub local: LocalParts,
    /// Stops every stage.
    pub cancel: CancellationToken,
    /// The stages by name.
    pub stages: JoinSet<&'static str>,
}

impl Running {
    /// Runs a stage until the agent stops; one that ends before ends the agent.
    pub fn spawn(&mut self, name: &'static str, stage: impl Future<Output = ()> + Send + 'static) {
        self.stages.spawn(async move {
            stage.await;
            name
        });
    }
}

/// Connects and starts every stage.
///
/// # Errors
/// When a source cannot be set up.
#[expect(clippy::needless_pass_by_value, reason = "the agent owns its plan")]
pub fn start(world: World, plan: Plan) -> anyhow::Result<Running> {
    let world = metrics::metered(world);
    let World { runtime, clock, metrics, .. } = &world;
    let events = Arc::new(EventLog::new(KEPT_EVENTS));
    let delivery = world.api.as_ref().map(|_| Arc::new(EventDelivery::new(events.clone())));
    let recorder: Arc<dyn EventRecorder> = match &delivery {
        Some(delivery) => delivery.clone(),
        None => events.clone(),
    };
    let node_events = recorder.clone();
    let sources: BTreeSet<PodSource> = configured_sources(&plan, &world);

    // Tables: desired (sync loop writes), workers (pod workers), observed (PLEG), verdicts (probes), statuses (status).
    let (changed, changes) = mpsc::unbounded_channel();
    let (class_changed, class_changes) = mpsc::unbounded_channel();
    let (probe_changed, probe_changes) = mpsc::unbounded_channel();
    let (object_users, changed_users) = mpsc::unbounded_channel();
    let (claims_changed, claim_changes) = mpsc::unbounded_channel();
    let (mirrored, mirror_changes) = mpsc::unbounded_channel();
    let (sources_ready, are_sources_ready) = watch::channel(false);
    let desired_listeners =
        [&changed, &class_changed, &probe_changed, &object_users, &claims_changed, &mirrored]
            .map(Clone::clone);
    let (desired_writer, desired_pods) = table(desired_listeners.into());
    let (delivered, deliveries) = mpsc::unbounded_channel();
    let view_listeners =
        [&changed, &class_changed, &probe_changed, &claims_changed, &delivered, &mirrored].map(Clone::clone);
    let (view_writer, worker_views) = table(view_listeners.into());
    let (verdict_writer, probe_verdicts) = table(vec![changed.clone()]);
    let (observed, observer) = observations(vec![changed.clone(), probe_changed]);
    world.allocations.tell(changed);
    let (status_writer, statuses) = table(vec![delivered]);
    let (shown_writer, shown, shown_changes) = api_server::shown_pods();
    let (next_passes, next_pass_reader) = table(Vec::new());
    let timelines = Arc::new(Timelines::new(clock.clone()));
    let source_reports = local::source_reports(&plan, &world);

    // Channels along the flow.
    let (snapshot_sender, snapshots) = mpsc::channel::<Snapshot>(8);
    let (update_sender, updates) = mpsc::channel(UPDATES);
    let (event_sender, pod_events) = mpsc::channel(EVENTS);
    let (worker_sender, worker_messages) = mpsc::unbounded_channel();
    let (requeue_sender, requeues) = mpsc::unbounded_channel();
    let (probe_sender, probe_results) = mpsc::channel(EVENTS);
    let (kill_sender, kills) = mpsc::unbounded_channel();
    let (sweep_sender, sweeps) = watch::channel(Default::default());
    let (heartbeat_sender, heartbeat) = watch::channel(Instant::now());
    let (report_sender, reports) = watch::channel(Vec::new());

    metrics.add(Arc::new(PodGauges {
        desired: desired_pods.clone(),
        workers: worker_views.clone(),
        observer: observer.clone(),
        shown: shown.clone(),
        allocations: world.allocations.clone(),
        node: plan.settings.name.clone(),
    }));
    let holdings = Arc::new(PublishedResources {
        desired: desired_pods.clone(),
        workers: worker_views.clone(),
        listed: plan.listed,
        metrics: metrics.clone(),
    });
    let (checker, health) = runtime_health::checker(runtime.clone());
    let mut views = Views {
        desired: desired_pods.clone(),
        statuses: statuses.clone(),
        metrics: metrics.clone(),
        manifests: reports,
        events,
        timelines: timelines.clone(),
        statistics: None,
        heartbeat,
        checks: Arc::default(),
        started_at: clock.now(),
        longest_silence: Duration::from_secs(300).max(plan.sync_frequency * 2),
    };
    let cancel = CancellationToken::new();
    let looked = local::Looked { views: &views, observer: &observer, shown: &shown };
    let local = LocalParts {
        logs: looked.logs(&world),
        streaming: looked.streaming(&world),
        views: views.clone(),
        observer: observer.clone(),
        workers: worker_views.clone(),
        next_passes: next_pass_reader,
        health: health.clone(),
        sources: source_reports.clone(),
        node: local::local_node(&plan, &world, None),
        clock: clock.clone(),
    };
    let local_streams = local.streaming.sessions.clone();
    let mut running = Running { views: views.clone(), local, cancel: cancel.clone(), stages: JoinSet::new() };
    running.spawn("local streams", local_streams.run(cancel.clone()));

    if let (Some(api), Some(delivery)) = (&world.api, delivery) {
        let deliver = event_delivery::run(delivery, api.events.clone(), cancel.clone());
        running.spawn("event delivery", deliver);
    }
    running.spawn("runtime health", checker.run(cancel.clone()));
    let (reporters, node_facts) = node_inputs::channels();
    let shared = node_shutdown::Shared {
        reporters: &reporters,
        desired: &desired_pods,
        workers: &worker_views,
        sources_ready: are_sources_ready.clone(),
        events: &recorder,
        kills: kill_sender.clone(),
    };
    node_shutdown::start_shutdown(&mut running, &world, &plan, shared);
    let node_view = world.api.as_ref().map(|api| {
        let shared = node_side::Shared { health: &health, events: &recorder, inputs: reporters.inputs() };
        node_side::start_node(&mut running, (&world, api), &plan.node, shared)
    });
    let shown_node = node_view.clone();
    let known_node = node_view.clone();
    running.local.node.view.clone_from(&node_view);
    if let (Some(api), Some(node)) = (&world.api, &node_view) {
        let parts = api_server::PodParts {
            node: node.clone(),
            snapshots: snapshot_sender.clone(),
            shown_writer,
            shown: shown.clone(),
            shown_changes: shown_changes.delivery,
            changes: deliveries,
            mirror_changes: (mirror_changes, shown_changes.mirrors),
            sources_ready: are_sources_ready,
            desired: desired_pods.clone(),
            workers: worker_views.clone(),
            statuses: statuses.clone(),
            report: source_reports.clone(),
            restarts: plan.rules.restarts,
            clock: clock.clone(),
            metrics: metrics.clone(),
        };
        api_server::start_pods(&mut running, api, parts);
    }
    let tokens = world.api.as_ref().map(|api| Arc::new(Tokens::new(api.tokens.clone(), clock.clone())));
    let of_node = node_view.as_ref().zip(tokens.as_ref());
    let driven = world.api.as_ref().zip(of_node).map(|(api, (view, tokens))| {
        let links = NodeLinks {
            view: view.clone(),
            in_use: reporters.volumes_in_use.clone(),
            obstacle: reporters.storage.clone(),
            tokens: tokens.clone(),
            events: recorder.clone(),
        };
        volumes::start_volumes(&mut running, &world, api, &plan.settings.name, links)
    });
    let read = statistics::Tables {
        observer: &observer,
        desired: &desired_pods,
        claims: driven.as_ref().map(|driven| &driven.claims),
        drivers: driven.as_ref().map(|driven| &driven.drivers),
        events: &recorder,
    };
    let statistics = statistics::statistics(&world, &plan, &read);
    views.statistics = Some(statistics.clone());
    running.views = views.clone();
    running.local.views = views.clone();
    let (pod_volumes, volume_claims) = match driven {
        Some(driven) => (driven.volumes, Some(driven.claims)),
        None => (world.volumes.clone(), None),
    };
    let pod_volumes = metrics::metered_volumes(&world, pod_volumes);
    let local_objects = Arc::new(LocalObjects::new(sources.iter().copied()));
    running.spawn("objects", objects::keep(local_objects.clone(), world.checkpoints.clone(), cancel.clone()));
    let wants = Wants {
        snapshots: &snapshot_sender,
        reports: report_sender,
        objects: &local_objects,
        report: &source_reports,
    };
    start_sources(&mut running, &world, &plan, wants)?;
    let claims = supplies::Claims {
        changed_pods: claim_changes,
        desired: desired_pods.clone(),
        workers: worker_views.clone(),
        node: node_view.clone(),
    };
    let cluster_objects =
        world.api.as_ref().map(|api| supplies::start_objects(&mut running, api, &plan.cluster, claims));
    let objects: Arc<dyn Objects> = match &cluster_objects {
        Some(objects) => objects.clone(),
        None => local_objects,
    };
    let parts = object_hints::Parts {
        objects: objects.clone(),
        changed_pods: changed_users,
        desired: desired_pods.clone(),
        requeues: requeue_sender.clone(),
    };
    running.spawn("object hints", object_hints::run(parts, cancel.clone()));
    let parts = desired::Parts {
        snapshots,
        updates: update_sender,
        checkpoints: world.checkpoints.clone(),
        sources: sources.iter().copied().collect(),
        events: recorder.clone(),
        clock: clock.clone(),
    };
    running.spawn("desired", keep(snapshot_sender, desired::run(parts, cancel.clone())));

    let parts = sync_loop::Parts {
        workers: worker_sender,
        sweeper: sweep_sender,
        desired: desired_writer,
        worker_views: worker_views.clone(),
        observer: observer.clone(),
        health: health.clone(),
        folders: world.folders.clone(),
        logs: world.logs.clone(),
        allocations: world.allocations.clone(),
        cgroups: world.cgroups.clone(),
        sources,
        settings: Arc::new(plan.settings.clone()),
        recorder: recorder.clone(),
        node: node_view,
        nodes: world.api.as_ref().map(|api| api.nodes.clone()),
        inputs: Some(node_facts),
        sources_ready,
        clock: clock.clone(),
        metrics: metrics.clone(),
        heartbeat: heartbeat_sender,
    };
    let inputs = sync_loop::Inputs { updates, events: pod_events, requeues, probes: probe_results, kills };
    running.spawn("sync loop", SyncLoop::new(parts).run(inputs, cancel.clone()));

    let parts = probes::Parts {
        changes: probe_changes,
        desired: desired_pods.clone(),
        workers: worker_views.clone(),
        observer: observer.clone(),
        runtime: runtime.clone(),
        outbound: world.outbound.clone(),
        verdicts: verdict_writer,
        results: probe_sender,
        checkpoints: world.checkpoints.clone(),
        events: recorder.clone(),
        clock: clock.clone(),
        metrics: metrics.clone(),
        timelines: timelines.clone(),
        host_addresses: plan.settings.addresses.clone(),
        gates: plan.settings.gates,
        started_at: clock.now(),
    };
    running.spawn("probes", probes::run(parts, cancel.clone()));

    let known = cluster_objects.zip(known_node.clone());
    let supplies = world.api.as_ref().zip(tokens).zip(known).map(|((api, tokens), known)| {
        let means = supplies::Means { clock, tokens, events: &recorder, metrics };
        supplies::start_supplies(&mut running, api, means, known)
    });
    let ledger = pulls::pull_ledger(&world, &plan);
    let sweeping = Sweeping::default();
    let tables = Tables {
        observer: observer.clone(),
        probes: probe_verdicts.clone(),
        statuses,
        objects,
        supplies,
        volumes: pod_volumes.clone(),
        claims: volume_claims,
        timelines: timelines.clone(),
        ledger: ledger.clone(),
        sweeping: sweeping.clone(),
    };
    let pod_runtime = pod_runtime(&world, &plan, tables, health.clone(), recorder.clone());
    pod_runtime.check_resolv_conf();
    let parts = pod_workers::Parts {
        messages: worker_messages,
        syncer: Arc::new(pod_runtime),
        views: view_writer,
        next_passes,
        timelines: timelines.clone(),
        requeues: requeue_sender,
        observer: observer.clone(),
        sync_frequency: plan.sync_frequency,
        clock: clock.clone(),
        metrics: metrics.clone(),
    };
    running.spawn("pod workers", pod_workers::run(parts, cancel.clone()));

    let parts = pleg::Parts {
        runtime: runtime.clone(),
        processes: world.processes.clone(),
        messages: world.messages.clone(),
        observations: observed,
        events: event_sender,
        health: health.clone(),
        clock: clock.clone(),
        metrics: metrics.clone(),
        settings: plan.pleg,
    };
    running.spawn("pleg", pleg::run(parts, cancel.clone()));

    let parts = node_cgroups::Parts {
        changes: class_changes,
        desired: desired_pods.clone(),
        workers: worker_views.clone(),
        allocations: world.allocations.clone(),
        cgroups: world.cgroups.clone(),
        settings: Arc::new(plan.settings.clone()),
        events: recorder.clone(),
        clock: clock.clone(),
    };
    running.spawn("node cgroups", node_cgroups::run(parts, cancel.clone()));

    let wanted = Wanted { desired: desired_pods.clone(), workers: worker_views.clone() };
    let (looked_at, seen_pods) = (observer.clone(), world.api.as_ref().map(|_| shown.clone()));
    let parts = status::Parts {
        changes,
        desired: desired_pods,
        workers: worker_views,
        allocations: world.allocations.clone(),
        observer: observer.clone(),
        statuses: status_writer,
        verdicts: probe_verdicts,
        shown,
        shown_changes: shown_changes.status,
        health,
        cgroups: world.cgroups.clone(),
        settings: Arc::new(plan.settings.clone()),
        node: NodeFacts {
            addresses: plan.settings.addresses.clone(),
            runtime_name: world.runtime_name.clone(),
            shows_stop_signals: plan.settings.container_stop_signals,
            gates: plan.settings.gates,
        },
        shown_node,
        clock: clock.clone(),
        metrics: metrics.clone(),
        timelines,
    };
    running.spawn("status", status::run(parts, cancel.clone()));

    let parts = sweeper::Parts {
        orders: sweeps,
        runtime: runtime.clone(),
        folders: world.folders.clone(),
        volumes: pod_volumes.clone(),
        logs: world.logs.clone(),
        cgroups: world.cgroups.clone(),
        wanted,
        sweeping,
        observer,
        metrics: metrics.clone(),
    };
    let tables = eviction::Tables {
        observer: &parts.observer,
        desired: &views.desired,
        workers: &parts.wanted.workers,
        statistics,
        events: &node_events,
        pressure: reporters.pressure.clone(),
        kills: kill_sender,
    };
    let orders = eviction::start_eviction(&mut running, &world, &plan, tables);
    let (workers, desired) = (&parts.wanted.workers, &views.desired);
    let tables = upkeep::Tables { observer: &parts.observer, desired, workers, ledger, orders };
    start_upkeep(&mut running, &world, &plan, tables, &node_events);
    running.spawn("sweeper", sweeper::run(parts, cancel.clone()));

    let socket = plan.settings.root_dir.join("pod-resources/kubelet.sock");
    pod_resources::start_pod_resources(&mut running, socket, holdings);
    let known = node_api::Known { views, node: known_node, observer: looked_at, shown: seen_pods };
    node_api::start_node_api(&mut running, &world, &plan, known);
    Ok(running)
}

/// Holds a channel's sender while a stage runs, so that its receiver never sees the end.
async fn keep<T>(kept: T, stage: impl Future<Output = ()>) {
    stage.await;
    drop(kept);
}
