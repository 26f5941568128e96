//! The Node object, also for a node that is not registered with an API server.

use std::sync::Arc;
use std::time::Duration;

use agent::node::node_view::NodeView;
use agent::node::runtime_health::RuntimeHealth;
use agent::pipeline::plugin_devices::PluginDevices;
use axum::extract::State;
use axum::response::Response;
use decide::node::node_status::{NodeAddressInputs, NodeProfile, NodeStatusInputs, initial_node};
use model::Timestamp;
use ports::host::host_facts::HostFacts;
use ports::runtime::RuntimeService;
use tokio::sync::watch;

use super::LocalApiDeps;
use crate::responses::json;

const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub struct LocalNodeDeps {
    /// The part of the Node object that is fixed at start.
    pub profile: Arc<NodeProfile>,
    /// The Node object of the API server; `None` without an API server.
    pub view: Option<watch::Receiver<NodeView>>,
    pub devices: PluginDevices,
    pub host: Arc<dyn HostFacts>,
    pub runtime: Arc<dyn RuntimeService>,
    /// The version of podward.
    pub agent_version: &'static str,
    /// When the agent started.
    pub started_at: Timestamp,
}

pub(super) async fn node(State(deps): State<LocalApiDeps>) -> Response {
    let registered = deps.node.view.as_ref().and_then(|view| view.borrow().node().cloned());
    let mut node = match registered {
        Some(node) => (*node).clone(),
        None => {
            let inputs = observe_node(&deps.node, &deps.health).await;
            let mut node = initial_node(&deps.node.profile, &inputs, deps.clock.now()).node;
            node.metadata.creation_timestamp = Some(deps.node.started_at.to_api_time());
            node
        }
    };
    node.metadata.managed_fields = None;
    json(&node)
}

async fn observe_node(node: &LocalNodeDeps, health: &RuntimeHealth) -> NodeStatusInputs {
    let health = health.now();
    let host = Arc::clone(&node.host);
    let host_facts = tokio::task::spawn_blocking(move || {
        let addresses = NodeAddressInputs {
            interfaces: host.interface_addresses(),
            by_name: Vec::new(),
            default_routes: host.addresses(),
        };
        (host.identity(), addresses)
    });
    let (machine, addresses) = host_facts.await.unwrap_or_default();
    let version = tokio::time::timeout(VERSION_TIMEOUT, node.runtime.version()).await;
    let problems = [&health.runtime_problem, &health.network_problem];
    NodeStatusInputs {
        machine,
        addresses,
        runtime: version.ok().and_then(Result::ok),
        handlers: health.features.handlers.clone(),
        supplemental_groups_policy: Some(health.features.supplemental_groups_policy),
        problems: problems.into_iter().flatten().cloned().collect(),
        devices: node.devices.counts(),
        ..NodeStatusInputs::default()
    }
}
