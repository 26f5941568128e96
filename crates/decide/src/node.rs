//! The Node object, its lease, CSINode, graceful shutdown, packet filter and system OOM detection.

pub mod csi_node;
pub mod node_lease;
pub mod node_shutdown;
pub mod node_status;
pub mod offline;
pub(crate) mod owner;
pub mod packet_filter;
pub mod system_oom;
