//! The static policy: reserved CPUs, the shared pool, and whether a stored state fits the machine.

use std::collections::BTreeMap;

use model::{CpuGroup, CpuPlacement, CpuPolicyOptions, CpuTopology, NumaMask, PodUid};
use values::cpu_set::CpuSet;

use super::accumulator::{TakeError, take_packed};
use super::distribution::take_distributed;
use crate::go_text::quoted;

/// The owner of each CPU; the content of the state file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAssignments {
    /// CPUs of all containers without exclusive ones, reserved CPUs included.
    pub shared: CpuSet,
    /// CPUs by container name: exclusive ones, or those that the container shares with others of its pod.
    pub exclusive: BTreeMap<PodUid, BTreeMap<String, CpuSet>>,
    /// CPUs of pods that own them as a whole.
    pub pods: BTreeMap<PodUid, CpuSet>,
}

/// Settings that do not change while the agent runs.
#[derive(Clone, Debug)]
pub struct StaticPolicy {
    topology: CpuTopology,
    options: CpuPolicyOptions,
    reserved: CpuSet,
    /// The reserved CPUs and all others of their cores.
    reserved_cores: CpuSet,
}

/// Why the static policy cannot be used on this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )]
    NothingReserved,
    #[error(
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of {cpus} did not equal {count})"
    )]
    CannotReserve { cpus: CpuSet, count: usize },
    #[error(
        "new static policy error: [cpumanager] unable to build the reserved physical CPUs from the reserved set: unknown CPU ID: {0}"
    )]
    UnknownCpu(u32),
    #[error(
        "new static policy error: Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )]
    MoreSocketsThanNumaNodes,
}

/// Why a stored state does not fit the policy or the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("default cpuset cannot be empty")]
    EmptySharedPool,
    #[error("not all reserved cpus: {} are present in defaultCpuSet: {}", quote(.reserved), quote(.shared))]
    ReservedMissing { reserved: CpuSet, shared: CpuSet },
    #[error("some of strictly reserved cpus: {} are present in defaultCpuSet: {}", quote(.reserved), quote(.shared))]
    ReservedShared { reserved: CpuSet, shared: CpuSet },
    #[error("pod: {pod}, container: {container} cpuset: {} overlaps with default cpuset {}", quote(.cpus), quote(.shared))]
    Overlap { pod: PodUid, container: String, cpus: CpuSet, shared: CpuSet },
    #[error("current set of available CPUs {} doesn't match with CPUs in state {}", quote(.online), quote(.known))]
    OtherCpus { online: CpuSet, known: CpuSet },
}

fn quote(cpus: &CpuSet) -> String {
    quoted(&cpus.to_string())
}

impl CpuAssignments {
    pub fn of(&self, pod: &PodUid, container: &str) -> Option<&CpuSet> {
        self.exclusive.get(pod)?.get(container)
    }

    /// The container's own CPUs, or the shared pool.
    pub fn effective(&self, pod: &PodUid, container: &str) -> &CpuSet {
        self.of(pod, container).unwrap_or(&self.shared)
    }

    /// All CPUs that a pod or container owns.
    pub fn assigned(&self) -> CpuSet {
        let containers = self.exclusive.values().flat_map(BTreeMap::values);
        containers.chain(self.pods.values()).flat_map(CpuSet::iter).collect()
    }
}

impl StaticPolicy {
    /// Chooses the reserved CPUs, unless the configuration names them.
    ///
    /// # Errors
    /// When the topology does not allow the policy with these options.
    pub fn new(
        topology: CpuTopology,
        options: CpuPolicyOptions,
        reserved_milli: i64,
        configured: &CpuSet,
    ) -> Result<Self, PolicyError> {
        let count = usize::try_from(reserved_milli.max(0)).unwrap_or(usize::MAX).div_ceil(1000);
        if count == 0 {
            return Err(PolicyError::NothingReserved);
        }
        if options.align_by_socket && topology.socket_count > topology.ids(CpuGroup::NumaNode).len() {
            return Err(PolicyError::MoreSocketsThanNumaNodes);
        }
        let mut policy =
            Self { topology, options, reserved: configured.clone(), reserved_cores: CpuSet::new() };
        if configured.is_empty() {
            policy.reserved = policy.take(&policy.topology.all(), count).unwrap_or_default();
        }
        if policy.reserved.len() != count {
            return Err(PolicyError::CannotReserve { cpus: policy.reserved, count });
        }
        for cpu in policy.reserved.iter() {
            let location = policy.topology.cpus.get(&cpu).ok_or(PolicyError::UnknownCpu(cpu))?;
            policy.reserved_cores.extend(policy.topology.cpus_in(CpuGroup::Core, location.core).iter());
        }
        Ok(policy)
    }

    pub fn topology(&self) -> &CpuTopology {
        &self.topology
    }

    pub fn options(&self) -> CpuPolicyOptions {
        self.options
    }

    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// CPUs that can become exclusive, free or not.
    pub fn allocatable(&self) -> CpuSet {
        self.topology.all().difference(&self.reserved)
    }

    /// CPUs that can become exclusive now.
    pub fn available(&self, assignments: &CpuAssignments) -> CpuSet {
        assignments.shared.difference(&self.reserved)
    }

    /// CPUs of cores without a reserved CPU that can become exclusive now.
    pub(super) fn available_cores(&self, assignments: &CpuAssignments) -> CpuSet {
        assignments.shared.difference(&self.reserved_cores)
    }

    /// Whether all CPUs share one L3 cache.
    pub fn is_uncore_aligned(&self, cpus: &CpuSet) -> bool {
        let cache = |cpu| self.topology.cpus.get(&cpu).map(|location| location.uncore_cache);
        let mut caches = cpus.iter().map(cache);
        let first = caches.next().flatten();
        caches.all(|cache| cache.is_some() && cache == first)
    }

    /// Checks a restored state. A state without CPUs is initialized.
    ///
    /// # Errors
    /// When the state belongs to another configuration or to another machine.
    pub fn validate(&self, mut stored: CpuAssignments) -> Result<CpuAssignments, StateError> {
        let mut online = self.topology.all();
        if self.options.strict_reservation {
            online = online.difference(&self.reserved);
        }
        let shared = stored.shared.clone();
        if shared.is_empty() {
            if !(stored.exclusive.is_empty() && stored.pods.is_empty()) {
                return Err(StateError::EmptySharedPool);
            }
            stored.shared = online;
            return Ok(stored);
        }
        if self.options.strict_reservation {
            if !self.reserved.is_disjoint(&shared) {
                let reserved = self.reserved.intersection(&shared);
                return Err(StateError::ReservedShared { reserved, shared });
            }
        } else if !self.reserved.is_subset(&shared) {
            return Err(StateError::ReservedMissing { reserved: self.reserved.clone(), shared });
        }
        for (pod, containers) in &stored.exclusive {
            for (container, cpus) in containers {
                if !shared.is_disjoint(cpus) {
                    let (pod, container, cpus) = (pod.clone(), container.clone(), cpus.clone());
                    return Err(StateError::Overlap { pod, container, cpus, shared });
                }
            }
        }
        let known = shared.union(&stored.assigned());
        if known == online { Ok(stored) } else { Err(StateError::OtherCpus { online, known }) }
    }

    /// Chooses CPUs of `pool`, those of the preferred NUMA nodes first.
    pub(super) fn choose(
        &self,
        pool: &CpuSet,
        count: usize,
        affinity: Option<NumaMask>,
    ) -> Result<CpuSet, TakeError> {
        let aligned = match affinity {
            Some(nodes) => {
                let cpus = pool.intersection(&self.cpus_near(nodes));
                self.take(&cpus, count.min(cpus.len()))?
            }
            None => CpuSet::new(),
        };
        let others = self.take(&pool.difference(&aligned), count - aligned.len())?;
        Ok(aligned.union(&others))
    }

    /// The CPUs of the NUMA nodes, or of all sockets that these touch.
    fn cpus_near(&self, nodes: NumaMask) -> CpuSet {
        let cpus = &self.topology.cpus;
        let is_near = |location: &model::CpuLocation| nodes.contains(location.numa_node);
        if !self.options.align_by_socket {
            return cpus.iter().filter(|(_, location)| is_near(location)).map(|(cpu, _)| *cpu).collect();
        }
        let sockets: Vec<i32> =
            cpus.values().filter(|location| is_near(location)).map(|location| location.socket).collect();
        cpus.iter().filter(|(_, location)| sockets.contains(&location.socket)).map(|(cpu, _)| *cpu).collect()
    }

    pub(super) fn take(&self, available: &CpuSet, count: usize) -> Result<CpuSet, TakeError> {
        match self.options.placement {
            CpuPlacement::AcrossNumaNodes => {
                let group = if self.options.full_cores_only { self.topology.cpus_per_core() } else { 1 };
                take_distributed(&self.topology, available, count, group)
            }
            placement @ (CpuPlacement::Packed
            | CpuPlacement::PackedByUncoreCache
            | CpuPlacement::AcrossCores) => take_packed(&self.topology, available, count, placement),
        }
    }
}
