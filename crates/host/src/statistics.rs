//! CPU, memory, disk and network use of the node, its cgroups and this process.

mod disk_usage;
mod filesystems;
mod process_usage;
mod tree_walk;
mod usage;

pub use disk_usage::HostDiskUsage;
pub use filesystems::HostFilesystems;
pub use process_usage::OwnProcessUsage;
pub use usage::HostUsage;
