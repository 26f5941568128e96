//! Kernel notifications about memory thresholds of cgroups.

use async_trait::async_trait;

/// Waits for memory thresholds.
#[async_trait]
pub trait MemoryThresholds: Send + Sync {
    /// Returns when the memory use of a cgroup, such as `/kubepods`, crosses a threshold in either direction. `/` is the
    /// whole machine. Never returns where the kernel has no such notification (cgroup v2), so the caller also polls. Dropping
    /// the future cancels the notification.
    async fn crossed(&self, cgroup: &str, bytes: u64);
}
