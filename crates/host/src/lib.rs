//! Linux adapters for the agent's ports: pod folders and volumes, cgroups, checkpoints, logs, watches, statistics
//! and facts about the machine.
//!
//! Input: paths through constructors (only `/proc` is hard-wired) and calls of the `ports` traits. Output: files,
//! mounts, cgroups, hints.
//!
//! Invariants: files of a pod are opened relative to a folder descriptor and never through a symlink; nothing is
//! deleted across a mount or a device; a file is replaced by rename, so readers see the old or the new content;
//! blocking work runs on blocking threads and completes even if its caller stops waiting.
//!
//! This crate makes no decisions: the caller chooses which pod, volume or cgroup to remove. It keeps no state
//! between calls that matters after a restart, logs almost nothing, and retries only for the few milliseconds that
//! a dying cgroup needs.

mod cgroups;
mod checkpoints;
mod errors;
mod files;
mod hanging_io;
mod helper_program;
mod images;
mod logs;
mod machine;
mod mount_table;
mod packet_filter;
mod plugin_sockets;
mod pods;
mod profiler;
mod statistics;
mod systemd;
#[cfg(test)]
mod test_folder;
mod volumes;
mod watches;

pub use cgroups::{HostPodCgroups, HostSystemCgroups};
pub use checkpoints::{FileCheckpoints, SealedCheckpoints, StateFiles};
pub use files::{LockError, LockFile, label_plugin_folders, lock_contention, make_root_folder};
pub use hanging_io::HANGING_IO_THREADS;
pub use images::{ExecCredentialPrograms, NodeCredentialFiles, check_program};
pub use logs::{HostNodeLogs, KernelLogDevice};
pub use machine::{
    KernelTunableBehaviour, MachineFacts, apparmor, cpu_topology, host_capabilities, hostname,
    in_user_namespace, kernel_tunables, kernel_version, limit_malloc_arenas, make_rshared, node_capacity,
    numa_nodes, online_cpus, page_size, raise_open_file_limit, release_free_memory, release_startup_pages,
    set_oom_score_adj, swap_capacity, swap_enabled, tmpfs_supports_noswap,
};
pub use packet_filter::IptablesFilter;
pub use plugin_sockets::HostPluginSockets;
pub use pods::{HostPodFolders, user_id_pool};
pub use profiler::OwnProfiler;
pub use statistics::{HostDiskUsage, HostFilesystems, HostUsage, OwnProcessUsage};
pub use systemd::HostLogind;
pub use volumes::{HostCsiFolders, HostPodVolumes};
pub use watches::{InotifyFolderWatch, PidfdProcessWatch};
