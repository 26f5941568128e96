//! From the configuration to the paths that look into pods.

use config::{Gate, Loaded};

/// What the debugging paths do.
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

/// The debugging paths; `None` when `enableDebuggingHandlers` is false.
pub(crate) fn debug_plan(loaded: &Loaded) -> Option<DebugPlan> {
    loaded.config.server.enable_debugging_handlers.then(|| DebugPlan {
        split_streams: loaded.gates.enabled(Gate::PodLogsQuerySplitStreams),
        translate: loaded.gates.enabled(Gate::ExtendWebSocketsToKubelet),
        node_logs: loaded.config.server.enable_system_log_handler,
        log_queries: loaded.config.server.enable_system_log_query,
    })
}
