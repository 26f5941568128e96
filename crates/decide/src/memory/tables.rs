//! The memory of each NUMA node, and its assignment to containers; the content of the state file.

use std::collections::BTreeMap;

use model::{NumaMask, PodUid};

/// Bytes of one kind of memory on one NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTable {
    pub total: u64,
    pub system_reserved: u64,
    /// Bytes for containers, free or not.
    pub allocatable: u64,
    /// Bytes of containers.
    pub reserved: u64,
    pub free: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Blocks of containers that use this node.
    pub assignments: i64,
    /// By resource name: `memory`, `hugepages-2Mi`.
    pub tables: BTreeMap<String, MemoryTable>,
    /// The nodes of the group that this node belongs to, itself included.
    pub group: NumaMask,
}

/// Memory that a container has on a set of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBlock {
    pub nodes: NumaMask,
    /// Resource name.
    pub kind: String,
    pub size: u64,
}

/// Blocks by pod and container.
pub type Assignments = BTreeMap<PodUid, BTreeMap<String, Vec<MemoryBlock>>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryState {
    pub nodes: BTreeMap<i32, NodeMemory>,
    pub assignments: Assignments,
    /// Blocks of pods that own memory as a whole. Those of their containers are parts of them, and not booked.
    pub pods: BTreeMap<PodUid, Vec<MemoryBlock>>,
}

impl MemoryState {
    pub fn of(&self, pod: &PodUid, container: &str) -> Option<&Vec<MemoryBlock>> {
        self.assignments.get(pod)?.get(container)
    }

    /// Free bytes of one kind on all nodes of a set.
    pub(super) fn free(&self, nodes: NumaMask, kind: &str) -> u64 {
        self.tables(nodes, kind).map(|table| table.free).fold(0, u64::saturating_add)
    }

    pub(super) fn allocatable(&self, nodes: NumaMask, kind: &str) -> u64 {
        self.tables(nodes, kind).map(|table| table.allocatable).fold(0, u64::saturating_add)
    }

    pub(super) fn reserved(&self, nodes: NumaMask, kind: &str) -> u64 {
        self.tables(nodes, kind).map(|table| table.reserved).fold(0, u64::saturating_add)
    }

    fn tables(&self, nodes: NumaMask, kind: &str) -> impl Iterator<Item = &MemoryTable> {
        nodes.nodes().filter_map(move |node| self.nodes.get(&node)?.tables.get(kind))
    }

    /// Whether memory on this set of nodes would mix with another group.
    pub(super) fn breaks_group(&self, nodes: NumaMask) -> bool {
        let is_in_other_group = |memory: &NodeMemory| {
            memory.assignments > 0 && (memory.group.count() == 1 || memory.group != nodes)
        };
        nodes.count() > 1 && nodes.nodes().filter_map(|node| self.nodes.get(&node)).any(is_in_other_group)
    }

    /// Takes bytes from the nodes in ascending order, and makes them a group.
    pub(super) fn book(&mut self, nodes: NumaMask, kind: &str, size: u64) {
        let mut missing = size;
        for node in nodes.nodes() {
            let Some(memory) = self.nodes.get_mut(&node) else { continue };
            memory.assignments += 1;
            memory.group = nodes;
            let Some(table) = memory.tables.get_mut(kind) else { continue };
            let taken = missing.min(table.free);
            table.free -= taken;
            table.reserved += taken;
            missing -= taken;
        }
    }

    pub(super) fn release(&mut self, block: &MemoryBlock) {
        let mut left = block.size;
        for node in block.nodes.nodes() {
            let Some(memory) = self.nodes.get_mut(&node) else { continue };
            memory.assignments -= 1;
            if memory.assignments == 0 {
                memory.group = NumaMask::of([node]);
            }
            let Some(table) = memory.tables.get_mut(&block.kind) else { continue };
            let returned = left.min(table.reserved);
            table.reserved -= returned;
            table.free += returned;
            left -= returned;
        }
    }
}
