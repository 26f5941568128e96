//! Exits of processes that are not our children.

use async_trait::async_trait;

/// Waits for processes by pidfd.
#[async_trait]
pub trait ProcessWatch: Send + Sync {
    /// Returns when the process has exited, or immediately when it does not exist. `Err` means that this machine cannot watch
    /// processes; the caller then polls.
    async fn exited(&self, pid: u32) -> Result<(), std::io::Error>;
}
