//! The node as its agent sees it, also where no API server knows it.

use std::sync::Arc;
use std::time::Duration;

use agent::node_view::NodeView;
use agent::runtime_health::RuntimeHealth;
use axum::extract::State;
use axum::response::Response;
use decide::node_status::{AddressSight, NodeProfile, NodeSight, initial_node};
use model::Timestamp;
use ports::host_facts::HostFacts;
use ports::runtime::RuntimeService;
use tokio::sync::watch;

use super::LocalParts;
use crate::answers::json;

/// How long the runtime may take to name its version.
const DEADLINE: Duration = Duration::from_secs(2);

/// What is known of the node.
#[derive(Clone)]
pub struct LocalNode {
    /// What is told of it and fixed at start.
    pub profile: Arc<NodeProfile>,
    /// The node as the API server shows it, if there is one.
    pub view: Option<watch::Receiver<NodeView>>,
    /// Facts of the machine.
    pub host: Arc<dyn HostFacts>,
    /// The container runtime.
    pub runtime: Arc<dyn RuntimeService>,
    /// When the agent started.
    pub started_at: Timestamp,
}

pub(super) async fn node(State(parts): State<LocalParts>) -> Response {
    let shown = parts.node.view.as_ref().and_then(|view| view.borrow().node().cloned());
    let mut node = match shown {
        Some(node) => (*node).clone(),
        None => {
            let sight = look(&parts.node, &parts.health).await;
            let mut node = initial_node(&parts.node.profile, &sight, parts.clock.now()).node;
            node.metadata.creation_timestamp = Some(parts.node.started_at.to_api_time());
            node
        }
    };
    node.metadata.managed_fields = None;
    json(&node)
}

async fn look(node: &LocalNode, health: &RuntimeHealth) -> NodeSight {
    let health = health.now();
    let host = Arc::clone(&node.host);
    let seen = tokio::task::spawn_blocking(move || {
        let addresses = AddressSight {
            interfaces: host.interface_addresses(),
            by_name: Vec::new(),
            default_routes: host.addresses(),
        };
        (host.identity(), addresses)
    });
    let (machine, addresses) = seen.await.unwrap_or_default();
    let version = tokio::time::timeout(DEADLINE, node.runtime.version()).await;
    let problems = [&health.runtime_problem, &health.network_problem];
    NodeSight {
        machine,
        addresses,
        runtime: version.ok().and_then(Result::ok),
        handlers: health.abilities.handlers.clone(),
        supplemental_groups_policy: Some(health.abilities.supplemental_groups_policy),
        problems: problems.into_iter().flatten().cloned().collect(),
        ..NodeSight::default()
    }
}
