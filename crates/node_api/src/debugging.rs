//! The paths that `enableDebuggingHandlers` switches on and off.

use axum::Router;
use axum::routing::any;

use crate::container_logs::{self, ContainerLogDeps};
use crate::node_logs::{self, NodeLogDeps};
use crate::responses::{DEBUGGING_DISABLED, disabled};
use crate::streaming::{self, StreamingDeps};

pub struct DebugDeps {
    pub logs: ContainerLogDeps,
    pub streaming: StreamingDeps,
    /// `None` when `enableSystemLogHandler` is false.
    pub node_logs: Option<NodeLogDeps>,
}

pub(crate) fn routes(deps: DebugDeps) -> Router {
    let off = || node_logs::disabled_routes("logs endpoint is disabled.");
    let node_logs = deps.node_logs.map_or_else(off, node_logs::routes);
    container_logs::routes(deps.logs).merge(streaming::routes(deps.streaming)).merge(node_logs)
}

/// The same paths when debugging is switched off.
pub(crate) fn disabled_routes() -> Router {
    let groups = ["run", "exec", "attach", "portForward", "containerLogs"];
    let off = async || disabled(DEBUGGING_DISABLED);
    groups.into_iter().fold(node_logs::disabled_routes(DEBUGGING_DISABLED), |router, group| {
        router.route(&format!("/{group}/"), any(off)).route(&format!("/{group}/{{*rest}}"), any(off))
    })
}
