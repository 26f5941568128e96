use std::collections::BTreeMap;

/// Amounts by resource name: `cpu` in thousandths of a CPU, memory and storage in bytes, the rest counted.
pub type ResourceAmounts = BTreeMap<String, i64>;

/// Capacity and reservations of the node; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// `cpu`, `memory`, `ephemeral-storage`, `pods`, `pid`, `hugepages-<size>`.
    pub capacity: ResourceAmounts,
    /// `kubeReserved`.
    pub kube_reserved: ResourceAmounts,
    /// `systemReserved`.
    pub system_reserved: ResourceAmounts,
    /// Reserve of the hard eviction thresholds: `memory` and `ephemeral-storage`.
    pub eviction_hard: ResourceAmounts,
}
