//! Word from the kernel that the memory of a cgroup crosses a mark.

use async_trait::async_trait;

/// Waits for the kernel.
#[async_trait]
pub trait MemoryThresholds: Send + Sync {
    /// Returns when the memory use of a cgroup, such as `/kubepods`, crosses so many bytes, in either direction. `/` is the
    /// whole machine. Where the kernel has no such word (cgroup v2), or it cannot be asked, it never returns: who waits
    /// looks by the clock as well. Dropping the future takes the question back.
    async fn crossed(&self, cgroup: &str, bytes: u64);
}
