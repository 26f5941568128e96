//! The machine's packet filter.

use async_trait::async_trait;
use model::{FilterChain, FilterPlan, IpFamily};

/// A failed operation on the packet filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFilterError {
    /// The machine has no packet filter of this family.
    #[error("{0} is not installed, or the kernel lacks it")]
    Missing(String),
    /// A command failed.
    #[error("{command}: {reason}")]
    Failed {
        /// The command.
        command: String,
        /// Its error message.
        reason: String,
    },
}

/// Reads and changes the filter. Every call ends in bounded time.
#[async_trait]
pub trait PacketFilter: Send + Sync {
    /// Creates the missing chains and rules of the plan. Existing ones and rules of other programs are not changed.
    async fn ensure(&self, family: IpFamily, plan: &FilterPlan) -> Result<(), PacketFilterError>;

    /// Whether a chain exists.
    async fn has(&self, family: IpFamily, chain: FilterChain) -> Result<bool, PacketFilterError>;
}
