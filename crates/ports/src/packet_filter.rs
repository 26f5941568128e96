//! The machine's packet filter.

use async_trait::async_trait;
use model::{FilterChain, FilterPlan, IpFamily};

/// Why the filter could not be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFilterError {
    /// This machine has no filter of that family.
    #[error("{0} is not installed, or the kernel lacks it")]
    Missing(String),
    /// A change was refused.
    #[error("{command}: {reason}")]
    Failed {
        /// What was tried.
        command: String,
        /// What came back.
        reason: String,
    },
}

/// Reads and changes the filter. Every call ends in bounded time.
#[async_trait]
pub trait PacketFilter: Send + Sync {
    /// Makes what is missing of the plan; what is there stays as it is. Rules of others are not touched.
    async fn ensure(&self, family: IpFamily, plan: &FilterPlan) -> Result<(), PacketFilterError>;

    /// Whether a chain exists.
    async fn has(&self, family: IpFamily, chain: FilterChain) -> Result<bool, PacketFilterError>;
}
