use std::collections::BTreeMap;

/// Amounts by resource name: `cpu` in thousandths of a CPU, memory and storage in bytes, the rest counted.
pub type ResourceAmounts = BTreeMap<String, i64>;

/// What the machine has, and what of it is kept from pods; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeResources {
    /// What there is: `cpu`, `memory`, `ephemeral-storage`, `pods`, `pid`, `hugepages-<size>`.
    pub capacity: ResourceAmounts,
    /// `kubeReserved`.
    pub kube_reserved: ResourceAmounts,
    /// `systemReserved`.
    pub system_reserved: ResourceAmounts,
    /// What the hard eviction thresholds keep free: `memory` and `ephemeral-storage`.
    pub eviction_hard: ResourceAmounts,
}
