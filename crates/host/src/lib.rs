//! The Linux side of the agent's ports: pod folders and volumes, file watching, checkpoints, cgroups,
//! process exits and facts of the machine.
//!
//! Comes in: paths through constructors (nothing is hard-wired but `/proc`), orders through the `ports`
//! traits. Goes out: files, mounts, cgroups, hints.
//!
//! Invariants: what belongs to a pod is reached from an open folder descriptor and never through a symlink;
//! nothing is deleted across a mount or a device; a file is replaced by rename, so that readers see the old
//! or the new one; blocking work runs on blocking threads and completes even if its caller gives up.
//!
//! It deliberately decides nothing: which pod, volume or cgroup may go is told by the caller. It keeps no
//! state of its own, does not log, and does not retry beyond the few milliseconds that a dying cgroup needs.

mod atomic_file;
mod capabilities;
mod checkpoints;
mod credential_files;
mod credential_programs;
mod csi_folders;
mod dbus;
mod disk;
mod disk_usage;
mod env_files;
mod failure;
mod filesystems;
mod folder;
mod folder_watch;
mod foreign_files;
mod helper;
mod host_facts;
mod kernel_log;
mod kernel_tunables;
mod lock_file;
mod log_files;
mod logind;
mod machine;
mod mount_program;
mod mount_table;
mod node_capacity;
mod node_logs;
mod packet_filter;
mod plugin_sockets;
mod pod_cgroups;
mod pod_folders;
mod pod_volumes;
mod process_usage;
mod process_watch;
mod profiler;
mod pull_records;
mod root_folder;
mod rotated_logs;
#[cfg(test)]
mod scratch;
mod scsi_disks;
mod sealed_checkpoints;
mod selinux_policy;
mod state_files;
mod systemd;
mod termination_messages;
mod tree;
mod turns;
mod usage;
mod user_namespaces;

pub use capabilities::host_capabilities;
pub use checkpoints::FileCheckpoints;
pub use credential_files::NodeCredentialFiles;
pub use credential_programs::{ExecCredentialPrograms, check_program};
pub use csi_folders::HostCsiFolders;
pub use disk_usage::HostDiskUsage;
pub use filesystems::HostFilesystems;
pub use folder_watch::InotifyFolderWatch;
pub use foreign_files::FOREIGN_PLACES;
pub use host_facts::MachineFacts;
pub use kernel_log::KernelLogDevice;
pub use kernel_tunables::{Tunables, kernel_tunables};
pub use lock_file::{LockError, LockFile, lock_contention};
pub use log_files::HostLogFiles;
pub use logind::HostLogind;
pub use machine::{
    drop_start_code, give_memory_back, hostname, make_rshared, raise_open_files, set_oom_score_adj,
    share_memory_pools, swap_capacity, swap_enabled, tmpfs_stays_out_of_swap,
};
pub use node_capacity::{apparmor, kernel_version, node_capacity, online_cpus};
pub use node_logs::HostNodeLogs;
pub use packet_filter::IptablesFilter;
pub use plugin_sockets::HostPluginSockets;
pub use pod_cgroups::{HostPodCgroups, HostSystemCgroups};
pub use pod_folders::HostPodFolders;
pub use pod_volumes::HostPodVolumes;
pub use process_usage::OwnProcess;
pub use process_watch::PidfdProcessWatch;
pub use profiler::OwnProfiler;
pub use pull_records::PullRecordFiles;
pub use root_folder::{label_plugin_folders, make_root_folder};
pub use rotated_logs::HostRotatedLogs;
pub use sealed_checkpoints::SealedCheckpoints;
pub use state_files::StateFiles;
pub use termination_messages::HostTerminationMessages;
pub use usage::HostUsage;
pub use user_namespaces::{FileUserNamespaceRecords, user_id_pool};
