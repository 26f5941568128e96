//! Takes CPUs from a set of free ones, step by step from large groups to single CPUs.

use std::collections::BTreeMap;

use model::{CpuGroup, CpuPlacement, CpuTopology};
use values::cpu_set::CpuSet;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    #[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
    NotEnough { requested: usize, available: usize },
    #[error("failed to allocate cpus")]
    Failed,
    #[error("accounting error, not enough CPUs allocated, remaining: {0}")]
    Accounting(usize),
}

/// Takes `count` of the available CPUs from as few groups as possible. Groups with few free CPUs come first, so that
/// large ones stay free for large requests.
pub(super) fn take_packed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    placement: CpuPlacement,
) -> Result<CpuSet, TakeError> {
    let mut accumulator = Accumulator::new(topology, available, count);
    if accumulator.is_satisfied() {
        return Ok(accumulator.taken);
    }
    if count > accumulator.free.len() {
        return Err(TakeError::NotEnough { requested: count, available: available.len() });
    }
    let (first, second) = match accumulator.order {
        GroupOrder::NumaNodesFirst => (CpuGroup::NumaNode, CpuGroup::Socket),
        GroupOrder::SocketsFirst => (CpuGroup::Socket, CpuGroup::NumaNode),
    };
    accumulator.take_whole(first);
    accumulator.take_whole(second);
    if placement == CpuPlacement::PackedByUncoreCache {
        accumulator.take_by_uncore_cache();
    }
    if placement != CpuPlacement::AcrossCores {
        accumulator.take_whole(CpuGroup::Core);
    }
    accumulator.take_single(placement);
    if accumulator.is_satisfied() { Ok(accumulator.taken) } else { Err(TakeError::Failed) }
}

/// Which groups contain the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupOrder {
    NumaNodesFirst,
    SocketsFirst,
}

pub(super) struct Accumulator<'a> {
    pub(super) topology: &'a CpuTopology,
    pub(super) free: CpuSet,
    pub(super) taken: CpuSet,
    pub(super) needed: usize,
    order: GroupOrder,
}

impl<'a> Accumulator<'a> {
    pub(super) fn new(topology: &'a CpuTopology, available: &CpuSet, count: usize) -> Self {
        let free = available.iter().filter(|cpu| topology.cpus.contains_key(cpu)).collect();
        let order = if topology.socket_count >= topology.ids(CpuGroup::NumaNode).len() {
            GroupOrder::NumaNodesFirst
        } else {
            GroupOrder::SocketsFirst
        };
        Self { topology, free, taken: CpuSet::new(), needed: count, order }
    }

    pub(super) fn is_satisfied(&self) -> bool {
        self.needed == 0
    }

    pub(super) fn take(&mut self, cpus: &CpuSet) {
        self.taken = self.taken.union(cpus);
        self.free = self.free.difference(cpus);
        self.needed = self.needed.saturating_sub(cpus.len());
    }

    pub(super) fn free_in(&self, group: CpuGroup, id: i32) -> CpuSet {
        self.topology.cpus_in(group, id).intersection(&self.free)
    }

    /// NUMA nodes with free CPUs.
    pub(super) fn numa_nodes(&self) -> Vec<i32> {
        match self.order {
            GroupOrder::NumaNodesFirst => self.sorted(CpuGroup::NumaNode, None),
            GroupOrder::SocketsFirst => self.nested(self.sockets(), CpuGroup::Socket, CpuGroup::NumaNode),
        }
    }

    fn sockets(&self) -> Vec<i32> {
        match self.order {
            GroupOrder::NumaNodesFirst => {
                self.nested(self.numa_nodes(), CpuGroup::NumaNode, CpuGroup::Socket)
            }
            GroupOrder::SocketsFirst => self.sorted(CpuGroup::Socket, None),
        }
    }

    fn cores(&self) -> Vec<i32> {
        match self.order {
            GroupOrder::NumaNodesFirst => self.nested(self.sockets(), CpuGroup::Socket, CpuGroup::Core),
            GroupOrder::SocketsFirst => self.nested(self.numa_nodes(), CpuGroup::NumaNode, CpuGroup::Core),
        }
    }

    fn uncore_caches(&self) -> Vec<i32> {
        self.nested(self.numa_nodes(), CpuGroup::NumaNode, CpuGroup::UncoreCache)
    }

    fn groups(&self, group: CpuGroup) -> Vec<i32> {
        match group {
            CpuGroup::NumaNode => self.numa_nodes(),
            CpuGroup::Socket => self.sockets(),
            CpuGroup::Core => self.cores(),
            CpuGroup::UncoreCache => self.uncore_caches(),
        }
    }

    fn nested(&self, outer: Vec<i32>, outer_group: CpuGroup, group: CpuGroup) -> Vec<i32> {
        outer.into_iter().flat_map(|id| self.sorted(group, Some((outer_group, id)))).collect()
    }

    /// Groups with free CPUs, those with the fewest first. All free CPUs of a group count, also those outside `within`.
    fn sorted(&self, group: CpuGroup, within: Option<(CpuGroup, i32)>) -> Vec<i32> {
        let mut counts: BTreeMap<i32, (usize, bool)> = BTreeMap::new();
        for (_, location) in self.free_locations() {
            let (count, is_within) = counts.entry(location.id(group)).or_default();
            *count += 1;
            *is_within |= within.is_none_or(|(outer, id)| location.id(outer) == id);
        }
        let inside = counts.into_iter().filter(|(_, (_, is_within))| *is_within);
        let mut ids: Vec<(usize, i32)> = inside.map(|(id, (count, _))| (count, id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn free_locations(&self) -> impl Iterator<Item = (u32, &model::CpuLocation)> {
        self.free.iter().filter_map(|cpu| Some((cpu, self.topology.cpus.get(&cpu)?)))
    }

    /// Takes whole groups, as long as they are not larger than the rest of the request.
    fn take_whole(&mut self, group: CpuGroup) {
        for id in
            self.groups(group).into_iter().filter(|id| self.counts_as_free(group, *id)).collect::<Vec<_>>()
        {
            let cpus = self.topology.cpus_in(group, id);
            // The sizes of sockets and cores are averages. Upstream takes a group of the average size even if a part of
            // it has an owner, and a socket twice that belongs to two NUMA nodes.
            if self.needed >= cpus.len() && cpus.is_subset(&self.free) {
                self.take(&cpus);
            }
        }
    }

    fn counts_as_free(&self, group: CpuGroup, id: i32) -> bool {
        let size = match group {
            CpuGroup::NumaNode | CpuGroup::UncoreCache => self.topology.cpus_in(group, id).len(),
            CpuGroup::Socket => self.topology.cpus_per_socket(),
            CpuGroup::Core => self.topology.cpus_per_core(),
        };
        self.free_in(group, id).len() == size
    }

    fn take_by_uncore_cache(&mut self) {
        for cache in self.uncore_caches() {
            if self.is_satisfied() {
                return;
            }
            if self.needed >= self.topology.cpus_per_uncore_cache() {
                self.take_whole(CpuGroup::UncoreCache);
            }
            self.take_rest_from(cache);
        }
    }

    /// Takes the whole rest of the request from one cache, or nothing.
    fn take_rest_from(&mut self, cache: i32) {
        let per_core = self.topology.cpus_per_core().max(1);
        let mut cores: Vec<i32> = self
            .free_locations()
            .filter(|(_, location)| location.uncore_cache == cache)
            .map(|(_, location)| location.core)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores.truncate(self.needed.div_ceil(per_core));
        let is_chosen = |location: &model::CpuLocation| cores.contains(&location.core);
        let mut cpus: Vec<u32> =
            self.free_locations().filter(|(_, location)| is_chosen(location)).map(|(cpu, _)| cpu).collect();
        if !self.needed.is_multiple_of(2) && per_core > 1 && cpus.len() > self.needed {
            cpus.pop();
        }
        if !self.is_satisfied() && cpus.len() == self.needed {
            self.take(&cpus.into_iter().collect());
        }
    }

    fn take_single(&mut self, placement: CpuPlacement) {
        let (groups, group) = match placement {
            CpuPlacement::AcrossCores => (self.sockets(), CpuGroup::Socket),
            CpuPlacement::Packed | CpuPlacement::PackedByUncoreCache | CpuPlacement::AcrossNumaNodes => {
                (self.cores(), CpuGroup::Core)
            }
        };
        for id in groups {
            let free = self.free_in(group, id);
            self.take(&free.iter().take(self.needed).collect());
        }
    }
}
