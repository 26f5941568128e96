//! Settings of the node API paths that reach into pods.

use config::{Gate, LoadedConfig};

#[derive(Clone, Copy, Debug)]
pub struct DebugPlan {
    /// The gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
    /// The gate `ExtendWebSocketsToKubelet`.
    pub translate: bool,
    /// `enableSystemLogHandler`.
    pub node_logs: bool,
    /// `enableSystemLogQuery`.
    pub log_queries: bool,
}

/// `None` when `enableDebuggingHandlers` is false.
pub(crate) fn debug_plan(loaded: &LoadedConfig) -> Option<DebugPlan> {
    loaded.config.server.enable_debugging_handlers.then(|| DebugPlan {
        split_streams: loaded.gates.enabled(Gate::PodLogsQuerySplitStreams),
        translate: loaded.gates.enabled(Gate::ExtendWebSocketsToKubelet),
        node_logs: loaded.config.server.enable_system_log_handler,
        log_queries: loaded.config.server.enable_system_log_query,
    })
}
