//! Metrics of calls to the runtime.

use std::time::Duration;

/// Counts finished calls. Must not block.
pub trait CallMeter: Send + Sync {
    /// A call ended; `operation` is a label value of `kubelet_runtime_operations_total`.
    fn call_ended(&self, operation: &'static str, took: Duration, failed: bool);
}
