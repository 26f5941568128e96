//! All wiring, no logic: the stages, the channels between them, and the tables they publish.
//!
//! [`start`] creates the tables ([`tables`]) and channels ([`channels`]), and then starts every stage with one `start_*`
//! function each. A stage gets clones of the readers it needs from the [`Context`]; writers and receivers are moved to the
//! one stage that owns them.

mod adapters;
mod api_server;
mod channels;
mod cluster_content;
mod context;
mod debugging;
mod dynamic_resources;
mod eviction;
mod local;
mod metrics;
mod node_api;
mod node_shutdown;
mod node_side;
mod pipeline;
mod plugin_registration;
mod pod_resources;
mod pod_runtime;
mod pods_api;
mod pulls;
mod running;
mod sources;
mod statistics;
mod tables;
mod upkeep;
mod volumes;

pub use adapters::Adapters;
pub use api_server::ApiServer;
pub use dynamic_resources::DynamicResourcePorts;
pub use local::{LocalEndpoint, SOCKET};
pub use node_api::Serving;
pub use running::Running;
pub use volumes::PluginPorts;

use std::sync::Arc;

use agent::cluster::objects::LocalObjects;
use agent::node::{node_reports, runtime_health};
use agent::upkeep::sweep_claims::SweepClaims;

use crate::plan::Plan;
use channels::channels;
use context::{Context, events, published_state};
use pod_runtime::{PodContent, pod_runtime};
use sources::{configured_sources, start_sources};
use tables::{PublishedTables, tables};

/// Connects and starts every stage.
///
/// # Errors
/// When a source cannot be set up.
pub fn start(adapters: Adapters, plan: Plan) -> anyhow::Result<Running> {
    let adapters = metrics::metered(adapters);
    let (event_log, event_delivery) = events(&adapters);
    let PublishedTables { readers, writers, replacements, changes, cluster } = tables(&adapters);
    let (senders, receivers) = channels();
    let (reporters, node_reports) = node_reports::channels();
    let (checker, health) = runtime_health::checker(adapters.runtime.clone());
    let context = Context::new(adapters, plan, readers, &event_log, event_delivery.as_ref(), health);
    let mut state = published_state(&context, event_log, &receivers);
    let mut running = Running::new(state.clone(), local::local_api(&context, &state));

    local::start_local_streams(&mut running);
    api_server::start_event_delivery(&mut running, &context, event_delivery);
    running.spawn("runtime health", checker.run(running.cancel.clone()));
    node_shutdown::start_shutdown(&mut running, &context, &reporters, &senders, &receivers);
    let node_view = node_side::start_node(&mut running, &context, reporters.subscribe());
    running.local.node.view.clone_from(&node_view);
    let tokens = cluster_content::tokens(&context);
    let dynamic = dynamic_resources::start_dynamic_resources(
        &mut running,
        &context,
        node_view.as_ref(),
        &receivers.sources_ready,
    );
    let cluster_side = (node_view.as_ref(), tokens.as_ref());
    let volumes = volumes::start_volumes(&mut running, &context, cluster_side, &reporters);
    let drivers = dynamic.as_ref().map(|dynamic| dynamic.drivers.clone());
    plugin_registration::start_plugin_registry(&mut running, &context, volumes.registration.clone(), drivers);
    plugin_registration::start_device_plugins(&mut running, &context, &reporters);
    let statistics = statistics::statistics(&context, &volumes);
    running.spawn("volume usage", statistics.clone().measure_volumes(running.cancel.clone()));
    state.statistics = Some(statistics.clone());
    running.publish(state.clone());

    let objects: Arc<LocalObjects> = Arc::new(LocalObjects::new(configured_sources(&context)));
    sources::start_local_objects(&mut running, &context, &objects);
    start_sources(&mut running, &context, &senders, &objects)?;
    let mut content = PodContent {
        objects,
        cluster_content: None,
        ledger: pulls::pull_ledger(&context),
        sweeping: SweepClaims::default(),
    };
    if let Some(node) = &node_view {
        let (snapshots, ready) = (senders.snapshots.clone(), receivers.sources_ready.clone());
        api_server::start_pods(&mut running, &context, node, cluster.pods, snapshots, ready);
        content.start_cluster_side(&mut running, &context, node, tokens, cluster.cluster_objects);
    }
    let orders =
        eviction::start_eviction(&mut running, &context, statistics, &reporters, senders.kills.clone());
    upkeep::start_upkeep(&mut running, &context, content.ledger.clone(), orders);
    upkeep::start_sweeper(
        &mut running,
        &context,
        &volumes,
        receivers.sweeps.clone(),
        content.sweeping.clone(),
    );
    let claimed_devices = dynamic.as_ref().and_then(|dynamic| dynamic.health.clone());
    let ends = pipeline::PipelineEnds { senders, receivers, writers, changes, claimed_devices };
    let node = (node_view.clone(), node_reports);
    let objects = content.objects.clone();
    let claims = dynamic.map(|dynamic| dynamic.claims);
    let pod_runtime = pod_runtime(&context, (&volumes, claims.clone()), content, replacements);
    pipeline::start_pipeline(&mut running, &context, ends, (pod_runtime, objects), node);
    pod_resources::start_pod_resources(&mut running, &context, claims);
    pods_api::start_pods_api(&mut running, &context);
    node_api::start_node_api(&mut running, &context, state, node_view);
    Ok(running)
}
