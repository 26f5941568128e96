use std::collections::BTreeMap;

/// A NUMA node, as sysfs shows it at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    pub id: i32,
    /// Bytes, huge pages included.
    pub memory: u64,
    /// Bytes of reserved huge pages by resource name, such as `hugepages-2Mi`.
    pub huge_pages: BTreeMap<String, u64>,
    /// Distances to all nodes, in the order of their ids; `None` if the kernel does not publish them.
    pub distances: Option<Vec<u64>>,
}
