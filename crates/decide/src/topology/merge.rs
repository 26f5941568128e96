//! Combines one hint of each resource, and compares the combinations.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use model::{NumaMask, ProviderHints, ResourceHints, TopologyHint};

const ANY_NODE: TopologyHint = TopologyHint { nodes: None, preferred: true };
const IMPOSSIBLE: TopologyHint = TopologyHint { nodes: None, preferred: false };

/// A combination of hints for the resources so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Combination {
    /// All hints are preferred, and all masks are the same.
    Preferred(Option<NumaMask>),
    /// With the nodes that all hints share.
    Other(NumaMask),
}

impl Combination {
    fn with(self, hint: TopologyHint, all_nodes: NumaMask) -> Self {
        match (self, hint.nodes) {
            (Self::Preferred(common), None) if hint.preferred => Self::Preferred(common),
            (Self::Preferred(None), nodes @ Some(_)) if hint.preferred => Self::Preferred(nodes),
            (Self::Preferred(Some(common)), Some(nodes)) if hint.preferred && common == nodes => self,
            (Self::Preferred(_) | Self::Other(_), nodes) => {
                let shared = self.nodes(all_nodes);
                Self::Other(nodes.map_or(shared, |nodes| shared.intersection(nodes)))
            }
        }
    }

    fn nodes(self, all_nodes: NumaMask) -> NumaMask {
        match self {
            Self::Preferred(None) => all_nodes,
            Self::Preferred(Some(nodes)) => all_nodes.intersection(nodes),
            Self::Other(nodes) => nodes,
        }
    }

    fn merged(self, all_nodes: NumaMask) -> (NumaMask, bool) {
        (self.nodes(all_nodes), matches!(self, Self::Preferred(_)))
    }
}

/// The hints of each resource. A manager without any has no preference.
pub(super) fn resource_hints(providers: &[ProviderHints]) -> Vec<Vec<TopologyHint>> {
    let hints = |hints: &ResourceHints| match hints {
        ResourceHints::NoPreference => vec![ANY_NODE],
        ResourceHints::OneOf(hints) if hints.is_empty() => vec![IMPOSSIBLE],
        ResourceHints::OneOf(hints) => hints.clone(),
    };
    let of_provider = |provider: &ProviderHints| -> Vec<Vec<TopologyHint>> {
        if provider.is_empty() { vec![vec![ANY_NODE]] } else { provider.values().map(hints).collect() }
    };
    providers.iter().flat_map(of_provider).collect()
}

/// The policy `single-numa-node` ignores all other hints.
pub(super) fn keep_single_node_hints(resources: &mut [Vec<TopologyHint>]) {
    for hints in resources {
        hints.retain(|hint| hint.preferred && hint.nodes.is_none_or(|nodes| nodes.count() == 1));
    }
}

/// The best combination of one hint per resource. `distance` breaks ties between sets with the same number of nodes.
pub(super) fn best_hint(
    all_nodes: NumaMask,
    resources: &[Vec<TopologyHint>],
    distance: impl Fn(NumaMask) -> u64,
) -> TopologyHint {
    let mut combinations = BTreeSet::from([Combination::Preferred(None)]);
    for hints in resources {
        let extend = |combination: &Combination| {
            let combination = *combination;
            hints.iter().map(move |hint| combination.with(*hint, all_nodes))
        };
        combinations = combinations.iter().flat_map(extend).collect();
    }
    let needed = most_needed_nodes(resources);
    let merged = combinations.into_iter().map(|combination| combination.merged(all_nodes));
    let usable = merged.filter(|(nodes, _)| !nodes.is_empty());
    let best = usable.min_by_key(|(nodes, preferred)| {
        (!preferred, size_rank(nodes.count(), needed, *preferred), distance(*nodes), nodes.bits())
    });
    let (nodes, preferred) = best.unwrap_or((all_nodes, false));
    TopologyHint { nodes: Some(nodes), preferred }
}

/// The number of nodes that the most demanding resource needs.
fn most_needed_nodes(resources: &[Vec<TopologyHint>]) -> u32 {
    let least = |hints: &Vec<TopologyHint>| {
        hints.iter().filter_map(|hint| hint.nodes).map(NumaMask::count).min().unwrap_or(0)
    };
    resources.iter().map(least).max().unwrap_or(0)
}

/// Orders the sizes of merged masks, best first. A hint that is not preferred should have exactly the nodes that the most
/// demanding resource needs, or else nearly as many, or else few more.
fn size_rank(count: u32, needed: u32, preferred: bool) -> (u8, Reverse<u32>, u32) {
    if preferred || count == needed {
        (0, Reverse(0), count)
    } else if count < needed {
        (1, Reverse(count), 0)
    } else {
        (2, Reverse(0), count)
    }
}
