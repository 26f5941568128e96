//! The policy of the topology manager.

use std::collections::BTreeMap;

use model::{NumaMask, NumaNode, Pod, PodLevelManagement, ProviderHints, Rejection, TopologyHint};

use crate::cpus::has_pod_level_resources;

use super::merge::{best_hint, keep_single_node_hints, resource_hints};

pub const TOPOLOGY_AFFINITY_ERROR: &str = "TopologyAffinityError";

/// Limit of NUMA nodes without the option `max-allowable-numa-nodes`. Hints are enumerated for all sets of nodes.
pub const DEFAULT_MAX_NUMA_NODES: usize = 8;

/// `topologyManagerPolicy`, apart from `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignmentPolicy {
    /// Admits every pod.
    BestEffort,
    /// Admits only pods with a preferred hint.
    Restricted,
    /// Admits only pods with a preferred hint of one NUMA node.
    SingleNumaNode,
}

/// `topologyManagerScope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlignmentScope {
    /// Each container is aligned for itself.
    Container,
    /// All containers of a pod share one set of NUMA nodes.
    Pod,
}

/// `topologyManagerPolicyOptions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignmentOptions {
    /// `prefer-closest-numa-nodes`.
    pub prefer_closest: bool,
    /// `max-allowable-numa-nodes`.
    pub max_nodes: usize,
}

/// The policy and the NUMA nodes of the machine. They do not change while the agent runs.
#[derive(Clone, Debug)]
pub struct Alignment {
    policy: AlignmentPolicy,
    scope: AlignmentScope,
    all_nodes: NumaMask,
    /// By node; `None` if distances do not matter.
    distances: Option<BTreeMap<i32, Vec<u64>>>,
}

/// Why the policy cannot be used on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlignmentError {
    #[error("unsupported on machines with more than {0} NUMA Nodes")]
    TooManyNodes(usize),
    #[error("cannot discover NUMA topology: error getting NUMA distances from cadvisor")]
    NoDistances,
}

/// The result of [`Alignment::merge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedHint {
    pub hint: TopologyHint,
    pub is_admitted: bool,
}

impl Default for AlignmentOptions {
    fn default() -> Self {
        Self { prefer_closest: false, max_nodes: DEFAULT_MAX_NUMA_NODES }
    }
}

impl Alignment {
    /// # Errors
    /// When the policy does not support the machine.
    pub fn new(
        policy: AlignmentPolicy,
        scope: AlignmentScope,
        options: AlignmentOptions,
        nodes: &[NumaNode],
    ) -> Result<Self, AlignmentError> {
        let distances_of = |node: &NumaNode| Some((node.id, node.distances.clone()?));
        let distances = match options.prefer_closest {
            true => Some(
                nodes.iter().map(distances_of).collect::<Option<_>>().ok_or(AlignmentError::NoDistances)?,
            ),
            false => None,
        };
        if nodes.len() > options.max_nodes {
            return Err(AlignmentError::TooManyNodes(options.max_nodes));
        }
        let all_nodes = NumaMask::of(nodes.iter().map(|node| node.id));
        let distances = distances.filter(|_| policy != AlignmentPolicy::SingleNumaNode);
        Ok(Self { policy, scope, all_nodes, distances })
    }

    pub fn policy(&self) -> AlignmentPolicy {
        self.policy
    }

    pub fn scope(&self) -> AlignmentScope {
        self.scope
    }

    /// Combines the hints of the resource managers, which come in the order of [`ProviderHints`] of each.
    pub fn merge(&self, providers: &[ProviderHints]) -> MergedHint {
        let mut resources = resource_hints(providers);
        match self.policy {
            AlignmentPolicy::BestEffort | AlignmentPolicy::Restricted => {
                let hint = best_hint(self.all_nodes, &resources, |mask| self.distance(mask));
                let is_admitted = hint.preferred || self.policy == AlignmentPolicy::BestEffort;
                MergedHint { hint, is_admitted }
            }
            AlignmentPolicy::SingleNumaNode => {
                keep_single_node_hints(&mut resources);
                let hint = best_hint(self.all_nodes, &resources, |_| 0);
                // Like upstream: on a machine with one node the mask has no meaning.
                let nodes = hint.nodes.filter(|nodes| *nodes != self.all_nodes);
                MergedHint { hint: TopologyHint { nodes, ..hint }, is_admitted: hint.preferred }
            }
        }
    }

    /// Sum of the distances of all pairs of nodes. Compared only for masks with the same number of nodes, where it orders
    /// them like upstream's average does.
    fn distance(&self, mask: NumaMask) -> u64 {
        let Some(distances) = &self.distances else { return 0 };
        let pair = |from: i32, to: i32| {
            let to = usize::try_from(to).unwrap_or(usize::MAX);
            distances.get(&from).and_then(|all| all.get(to)).copied().unwrap_or(0)
        };
        let from_node = |from| mask.nodes().map(move |to| pair(from, to)).fold(0, u64::saturating_add);
        mask.nodes().map(from_node).fold(0, u64::saturating_add)
    }
}

/// The rejection of a pod whose resources cannot be aligned.
pub fn affinity_rejection(pod: &Pod, scope: AlignmentScope, management: PodLevelManagement) -> Rejection {
    let is_managed = management.is_managed() && has_pod_level_resources(pod);
    let message = match scope {
        AlignmentScope::Container if is_managed => {
            "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
        }
        AlignmentScope::Pod if is_managed => {
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
        }
        AlignmentScope::Container | AlignmentScope::Pod => {
            "Resources cannot be allocated with Topology locality"
        }
    };
    Rejection::at_admission(TOPOLOGY_AFFINITY_ERROR, message)
}
