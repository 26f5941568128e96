//! Wiring of what exists only with an API server.

use std::sync::Arc;

use ports::api::pods::ApiPods;

/// The API server's side of the world.
#[derive(Clone)]
pub struct ApiServer {
    /// Pods of this node.
    pub pods: Arc<dyn ApiPods>,
}
