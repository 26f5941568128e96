//! Wiring of what exists only with an API server.

use std::sync::Arc;

use agent::memory::Memory;
use agent::node;
use agent::node_view::{self, NodeView};
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::leases::ApiLeases;
use ports::api::nodes::ApiNodes;
use ports::api::objects::ApiObjects;
use ports::api::pods::ApiPods;
use ports::api::volumes::ApiVolumes;
use tokio::sync::watch;

use super::Running;

/// The API server's side of the world.
#[derive(Clone)]
pub struct ApiServer {
    /// Pods of this node.
    pub pods: Arc<dyn ApiPods>,
    /// ConfigMaps and Secrets.
    pub objects: Arc<dyn ApiObjects>,
    /// The Node object.
    pub nodes: Arc<dyn ApiNodes>,
    /// Claims, persistent volumes, drivers.
    pub volumes: Arc<dyn ApiVolumes>,
    /// What this node's drivers tell of it.
    pub csi_nodes: Arc<dyn ApiCsiNodes>,
    /// The node's lease.
    pub leases: Arc<dyn ApiLeases>,
    /// What the API server said, for a start without it.
    pub memory: Memory,
}

/// Starts what concerns the Node object, and returns it as the API server knows it.
pub(super) fn start_node(running: &mut Running, api: &ApiServer) -> watch::Receiver<NodeView> {
    let (publish, view) = node_view::channel();
    running.spawn("node watch", node::watch::run(api.nodes.clone(), publish, running.cancel.clone()));
    view
}
