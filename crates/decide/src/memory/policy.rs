//! The Static policy: reserved memory, and whether a stored state fits the machine.

use std::collections::{BTreeMap, BTreeSet};

use model::{NumaMask, NumaNode, PodUid, ResourceAmounts};
use values::quantity::binary_si;

use super::tables::{MemoryBlock, MemoryState, MemoryTable, NodeMemory};
use crate::go_text::quoted;

const MEMORY: &str = "memory";

/// `reservedMemory`: bytes by NUMA node and resource name.
pub type MemoryReservations = BTreeMap<i32, BTreeMap<String, u64>>;

/// The memory of the machine without containers.
#[derive(Clone, Debug)]
pub struct MemoryPolicy {
    nodes: BTreeMap<i32, NodeMemory>,
}

/// Why the policy cannot be used on this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryPolicyError {
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    UnknownNode(i32),
    #[error(
        "the total amount {} of type {} is not equal to the value {} determined by Node Allocatable feature",
        quoted(.configured), quoted(.kind), quoted(.reserved)
    )]
    OtherTotal { kind: String, configured: String, reserved: String },
    #[error("[memorymanager] you should specify the system reserved memory")]
    NothingReserved,
}

/// Why a stored state does not fit the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryStateError {
    #[error("[memorymanager] machine state can not be empty when it has memory assignments")]
    NoMachine,
    #[error("[memorymanager] the expected machine state is different from the real one")]
    OtherMachine,
    #[error(
        "[memorymanager] (pod: {pod}, container: {container}) the memory assignment uses the NUMA that does not exist"
    )]
    UnknownNode { pod: PodUid, container: String },
    #[error(
        "[memorymanager] (pod: {pod}, container: {container}) the memory assignment uses memory resource that does not exist"
    )]
    UnknownKind { pod: PodUid, container: String },
}

impl MemoryPolicy {
    /// `node_reserved`: what kubeReserved, systemReserved and the hard eviction thresholds reserve together.
    ///
    /// # Errors
    /// When the reservations of the NUMA nodes do not add up to those of the node.
    pub fn new(
        machine: &[NumaNode],
        reservations: &MemoryReservations,
        node_reserved: &ResourceAmounts,
    ) -> Result<Self, MemoryPolicyError> {
        let unknown = reservations.keys().find(|id| machine.iter().all(|node| node.id != **id));
        if let Some(id) = unknown {
            return Err(MemoryPolicyError::UnknownNode(*id));
        }
        check_totals(reservations, node_reserved)?;
        if total(reservations, MEMORY) == 0 {
            return Err(MemoryPolicyError::NothingReserved);
        }
        let memory = |node: &NumaNode| {
            let reserved = reservations.get(&node.id);
            (node.id, node_memory(node, reserved.unwrap_or(&BTreeMap::new())))
        };
        Ok(Self { nodes: machine.iter().map(memory).collect() })
    }

    /// Checks a restored state. A state without nodes is initialized.
    ///
    /// # Errors
    /// When the state belongs to another configuration or to another machine.
    pub fn validate(&self, stored: MemoryState) -> Result<MemoryState, MemoryStateError> {
        if stored.nodes.is_empty() {
            if !(stored.assignments.is_empty() && stored.pods.is_empty()) {
                return Err(MemoryStateError::NoMachine);
            }
            return Ok(MemoryState { nodes: self.nodes.clone(), ..stored });
        }
        let mut expected = MemoryState { nodes: self.nodes.clone(), ..MemoryState::default() };
        for (pod, blocks) in &stored.pods {
            expected.book_known((pod, ""), blocks)?;
        }
        for (pod, containers) in stored.assignments.iter().filter(|(pod, _)| !stored.pods.contains_key(*pod))
        {
            for (container, blocks) in containers {
                expected.book_known((pod, container), blocks)?;
            }
        }
        if is_same(&stored, &expected) { Ok(stored) } else { Err(MemoryStateError::OtherMachine) }
    }
}

impl MemoryState {
    fn book_known(
        &mut self,
        (pod, container): (&PodUid, &str),
        blocks: &[MemoryBlock],
    ) -> Result<(), MemoryStateError> {
        for block in blocks {
            let owner = || (pod.clone(), container.to_owned());
            for node in block.nodes.nodes() {
                let Some(memory) = self.nodes.get(&node) else {
                    let (pod, container) = owner();
                    return Err(MemoryStateError::UnknownNode { pod, container });
                };
                if !memory.tables.contains_key(&block.kind) {
                    let (pod, container) = owner();
                    return Err(MemoryStateError::UnknownKind { pod, container });
                }
            }
            self.book(block.nodes, &block.kind, block.size);
        }
        Ok(())
    }
}

fn total(reservations: &MemoryReservations, kind: &str) -> u64 {
    let of_node = |own: &BTreeMap<String, u64>| own.get(kind).copied().unwrap_or_default();
    reservations.values().map(of_node).fold(0, u64::saturating_add)
}

fn check_totals(
    reservations: &MemoryReservations,
    node_reserved: &ResourceAmounts,
) -> Result<(), MemoryPolicyError> {
    let is_memory = |kind: &&String| *kind == MEMORY || kind.starts_with("hugepages-");
    let kinds = reservations.values().flat_map(BTreeMap::keys).chain(node_reserved.keys());
    for kind in kinds.filter(is_memory).collect::<BTreeSet<_>>() {
        let configured = total(reservations, kind);
        let reserved = node_reserved.get(kind).copied().unwrap_or_default();
        if u64::try_from(reserved) != Ok(configured) {
            return Err(MemoryPolicyError::OtherTotal {
                kind: kind.clone(),
                configured: binary_si(i64::try_from(configured).unwrap_or(i64::MAX)),
                reserved: binary_si(reserved),
            });
        }
    }
    Ok(())
}

fn node_memory(node: &NumaNode, reserved: &BTreeMap<String, u64>) -> NodeMemory {
    let table = |kind: &str, total: u64, others: u64| {
        let system_reserved = reserved.get(kind).copied().unwrap_or_default();
        // Upstream wraps around below zero, which would offer memory that does not exist.
        let allocatable = total.saturating_sub(system_reserved).saturating_sub(others);
        MemoryTable { total, system_reserved, allocatable, reserved: 0, free: allocatable }
    };
    let in_huge_pages = node.huge_pages.values().copied().fold(0, u64::saturating_add);
    let mut tables: BTreeMap<String, MemoryTable> =
        node.huge_pages.iter().map(|(kind, total)| (kind.clone(), table(kind, *total, 0))).collect();
    tables.insert(MEMORY.to_owned(), table(MEMORY, node.memory, in_huge_pages));
    NodeMemory { assignments: 0, tables, group: NumaMask::of([node.id]) }
}

/// The order of earlier releases decides which node of a group has free memory, so only sums over groups are compared.
fn is_same(stored: &MemoryState, expected: &MemoryState) -> bool {
    let is_same_node = |(id, one): (&i32, &NodeMemory)| {
        let Some(other) = expected.nodes.get(id) else { return false };
        let is_same_kind = |(kind, one_table): (&String, &MemoryTable)| {
            let Some(other_table) = other.tables.get(kind) else { return false };
            let fixed = |table: &MemoryTable| (table.total, table.system_reserved, table.allocatable);
            fixed(one_table) == fixed(other_table)
                && stored.free(one.group, kind) == expected.free(one.group, kind)
                && stored.reserved(one.group, kind) == expected.reserved(one.group, kind)
        };
        one.assignments == other.assignments
            && one.group == other.group
            && one.tables.len() == other.tables.len()
            && one.tables.iter().all(is_same_kind)
    };
    stored.nodes.len() == expected.nodes.len() && stored.nodes.iter().all(is_same_node)
}
