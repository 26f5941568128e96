//! Wiring of the Node object and the lease.

use std::sync::Arc;

use agent::node_inputs::NodeInputs;
use agent::node_view::{self, NodeView};
use agent::runtime_health::RuntimeHealth;
use agent::{lease, node};
use ports::event_recorder::EventRecorder;
use tokio::sync::watch;

use super::{ApiServer, Running, World};
use crate::registration_plan::NodePlan;

/// What the rest of the agent lends.
pub(super) struct Shared<'a> {
    pub(super) health: &'a RuntimeHealth,
    pub(super) events: &'a Arc<dyn EventRecorder>,
    pub(super) inputs: NodeInputs,
}

/// Starts what concerns the Node object and the lease. Returns the node as the API server knows it.
pub(super) fn start_node(
    running: &mut Running,
    (world, api): (&World, &ApiServer),
    plan: &NodePlan,
    shared: Shared<'_>,
) -> watch::Receiver<NodeView> {
    let (publish, view) = node_view::channel();
    let cancel = running.cancel.clone();
    running.spawn("node watch", node::watch::run(api.nodes.clone(), publish, cancel.clone()));
    let parts = lease::Parts {
        leases: api.leases.clone(),
        terms: plan.lease.clone(),
        view: view.clone(),
        deadline: plan.settings.deadline,
        clock: world.clock.clone(),
    };
    running.spawn("lease", lease::run(parts, cancel.clone()));
    let parts = node::Parts {
        nodes: api.nodes.clone(),
        profile: Arc::new(plan.profile.clone()),
        settings: plan.settings,
        host: world.host.clone(),
        runtime: world.runtime.clone(),
        images: world.runtime.clone(),
        health: shared.health.clone(),
        inputs: shared.inputs,
        view: view.clone(),
        events: shared.events.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
    };
    running.spawn("node", node::run(parts, cancel));
    view
}
