use std::collections::BTreeMap;

use values::cpu_set::CpuSet;

/// The CPUs of the node, as sysfs shows them at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// The online CPUs.
    pub cpus: BTreeMap<u32, CpuLocation>,
    /// Differs from the number of `cpus` where sysfs has no NUMA nodes: offline CPUs count there.
    pub cpu_count: usize,
    pub core_count: usize,
    /// Comes from `/proc/cpuinfo`, and so may differ from the number of distinct sockets of the CPUs.
    pub socket_count: usize,
}

/// Ids of the groups that a CPU belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLocation {
    pub numa_node: i32,
    pub socket: i32,
    /// The lowest CPU of the core: core ids of the kernel are unique within a socket only.
    pub core: i32,
    /// An L3 cache that several cores share, but not the whole NUMA node; the socket without such a cache.
    pub uncore_cache: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuGroup {
    NumaNode,
    Socket,
    Core,
    UncoreCache,
}

impl CpuLocation {
    pub fn id(&self, group: CpuGroup) -> i32 {
        match group {
            CpuGroup::NumaNode => self.numa_node,
            CpuGroup::Socket => self.socket,
            CpuGroup::Core => self.core,
            CpuGroup::UncoreCache => self.uncore_cache,
        }
    }
}

impl CpuTopology {
    pub fn all(&self) -> CpuSet {
        self.cpus.keys().copied().collect()
    }

    /// The CPUs of one group, free or not.
    pub fn cpus_in(&self, group: CpuGroup, id: i32) -> CpuSet {
        self.cpus.iter().filter(|(_, location)| location.id(group) == id).map(|(cpu, _)| *cpu).collect()
    }

    /// Ids of the groups that have CPUs, ascending.
    pub fn ids(&self, group: CpuGroup) -> Vec<i32> {
        let mut ids: Vec<i32> = self.cpus.values().map(|location| location.id(group)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Rounded down, also on machines whose cores differ: upstream's choices depend on it.
    pub fn cpus_per_core(&self) -> usize {
        self.cpu_count.checked_div(self.core_count).unwrap_or(0)
    }

    /// Rounded down.
    pub fn cpus_per_socket(&self) -> usize {
        self.cpu_count.checked_div(self.socket_count).unwrap_or(0)
    }

    /// Rounded down.
    pub fn cpus_per_uncore_cache(&self) -> usize {
        self.cpu_count.checked_div(self.ids(CpuGroup::UncoreCache).len()).unwrap_or(0)
    }
}
