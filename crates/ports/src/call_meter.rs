//! Counts of calls to the runtime.

use std::time::Duration;

/// Is told about every call that ended. Must not block.
pub trait CallMeter: Send + Sync {
    /// One call ended; `operation` is in the words of `kubelet_runtime_operations_total`.
    fn call_ended(&self, operation: &'static str, took: Duration, failed: bool);
}
