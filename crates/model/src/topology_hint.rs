//! Topology hints: which sets of NUMA nodes could provide a resource.

use std::collections::BTreeMap;
use std::fmt;

/// A set of NUMA nodes. Upstream's masks have 64 bits, so larger ids do not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaMask(u64);

impl NumaMask {
    pub const EMPTY: Self = Self(0);

    /// Ids outside 0 to 63 are ignored.
    #[must_use]
    pub fn of(nodes: impl IntoIterator<Item = i32>) -> Self {
        let bits = nodes.into_iter().filter(|node| (0..64).contains(node)).map(|node| 1_u64 << node);
        Self(bits.fold(0, |mask, bit| mask | bit))
    }

    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn contains(self, node: i32) -> bool {
        (0..64).contains(&node) && self.0 & (1 << node) != 0
    }

    #[must_use]
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The nodes, ascending.
    pub fn nodes(self) -> impl Iterator<Item = i32> {
        (0..64).filter(move |node| self.contains(*node))
    }
}

impl fmt::Display for NumaMask {
    /// Binary digits, as upstream logs masks.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:02b}", self.0)
    }
}

/// One placement that a resource manager offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopologyHint {
    /// `None`: any node.
    pub nodes: Option<NumaMask>,
    /// Whether no smaller set of NUMA nodes would do.
    pub preferred: bool,
}

/// The offer of a resource manager for one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceHints {
    NoPreference,
    /// An empty list: no placement is possible.
    OneOf(Vec<TopologyHint>),
}

/// Hints of one resource manager for a container or pod, by resource name. Empty: no preference.
pub type ProviderHints = BTreeMap<String, ResourceHints>;
