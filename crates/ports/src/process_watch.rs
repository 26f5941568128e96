//! Exits of processes that are not our children.

use async_trait::async_trait;

/// Waits for processes by pidfd.
#[async_trait]
pub trait ProcessWatch: Send + Sync {
    /// Returns when the process has exited, at once when there is none. `Err` means that this machine cannot
    /// watch processes; the caller then relies on polling.
    async fn exited(&self, pid: u32) -> Result<(), std::io::Error>;
}
