//! The paths that `enableDebuggingHandlers` switches.

use axum::Router;
use axum::routing::any;

use crate::answers::{DEBUGGING_DISABLED, disabled};
use crate::container_logs::{self, LogParts};
use crate::node_logs::{self, NodeLogParts};
use crate::streaming::{self, StreamingParts};

/// What they need.
pub struct DebugParts {
    /// Logs of containers.
    pub logs: LogParts,
    /// Streams to what runs.
    pub streaming: StreamingParts,
    /// Logs of the node; `None` when `enableSystemLogHandler` is false.
    pub node_logs: Option<NodeLogParts>,
}

/// The paths.
pub(crate) fn routes(parts: DebugParts) -> Router {
    let off = || node_logs::disabled_routes("logs endpoint is disabled.");
    let node_logs = parts.node_logs.map_or_else(off, node_logs::routes);
    container_logs::routes(parts.logs).merge(streaming::routes(parts.streaming)).merge(node_logs)
}

/// The same paths, where they are switched off.
pub(crate) fn disabled_routes() -> Router {
    let groups = ["run", "exec", "attach", "portForward", "containerLogs"];
    let off = async || disabled(DEBUGGING_DISABLED);
    groups.into_iter().fold(node_logs::disabled_routes(DEBUGGING_DISABLED), |router, group| {
        router.route(&format!("/{group}/"), any(off)).route(&format!("/{group}/{{*rest}}"), any(off))
    })
}
