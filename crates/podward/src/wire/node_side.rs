//! Starts the stages of the Node object, the lease and the node's cgroups.

use std::sync::Arc;

use agent::node::node_reports::NodeReports;
use agent::node::node_view::{self, NodeView};
use agent::node::{self, lease, node_cgroups};
use model::PodUid;
use timing::KeyReceiver;
use tokio::sync::watch;

use super::Running;
use super::context::Context;

/// Starts the watch of the Node object, its registration and status, and the lease. Returns the node as the API server
/// shows it; `None` without an API server.
pub(super) fn start_node(
    running: &mut Running,
    context: &Context,
    reports: NodeReports,
) -> Option<watch::Receiver<NodeView>> {
    let api = context.api()?;
    let (adapters, plan) = (&context.adapters, &context.plan.node);
    let (publish, view) = node_view::channel();
    let cancel = running.cancel.clone();
    running.spawn("node watch", node::watch::run(api.nodes.clone(), publish, cancel.clone()));
    let deps = lease::LeaseDeps {
        leases: api.leases.clone(),
        settings: plan.lease.clone(),
        view: view.clone(),
        request_timeout: plan.settings.request_timeout,
        clock: adapters.clock.clone(),
    };
    running.spawn("lease", lease::run(deps, cancel.clone()));
    let deps = node::NodeDeps {
        nodes: api.nodes.clone(),
        profile: Arc::new(plan.profile.clone()),
        settings: plan.settings,
        host: adapters.host.clone(),
        runtime: adapters.runtime.clone(),
        images: adapters.runtime.clone(),
        health: context.health.clone(),
        reports,
        view: view.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
    };
    running.spawn("node", node::run(deps, cancel));
    Some(view)
}

pub(super) fn start_node_cgroups(running: &mut Running, context: &Context, changes: KeyReceiver<PodUid>) {
    let (adapters, tables) = (&context.adapters, &context.tables);
    let deps = node_cgroups::NodeCgroupsDeps {
        changes,
        desired: tables.desired.clone(),
        workers: tables.workers.clone(),
        allocations: adapters.allocations.clone(),
        cgroups: adapters.cgroups.clone(),
        settings: context.settings.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
    };
    running.spawn("node cgroups", node_cgroups::run(deps, running.cancel.clone()));
}
