use crate::{ContainerSummary, SandboxSummary};

/// Stands for a set of objects in their states. Equal marks of one client mean equal sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListMark(u64);

impl ListMark {
    /// A mark made from that number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// All sandboxes and containers of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodLists {
    /// The same objects in the same states as when the mark was made that the question named.
    Same,
    These {
        sandboxes: Vec<SandboxSummary>,
        containers: Vec<ContainerSummary>,
        /// The mark of these lists; `None` when no later answer may be compared with them.
        mark: Option<ListMark>,
    },
}
