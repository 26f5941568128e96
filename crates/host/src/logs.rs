//! Container logs, the node's own logs and the kernel's log.

mod kernel_log;
mod log_files;
mod node_logs;
mod rotated_logs;

pub use kernel_log::KernelLogDevice;
pub use node_logs::HostNodeLogs;
