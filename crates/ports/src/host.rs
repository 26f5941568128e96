//! Files, mounts, cgroups, processes and kernel interfaces of the machine. Implemented by the crate `host`.

pub mod checkpoints;
pub mod credential_sources;
pub mod csi_folders;
pub mod env_files;
pub mod filesystems;
pub mod folder_watch;
pub mod host_facts;
pub mod kernel_log;
pub mod log_files;
pub mod logind;
pub mod memory_thresholds;
pub mod node_logs;
pub mod packet_filter;
pub mod pod_cgroups;
pub mod pod_folders;
pub mod pod_volumes;
pub mod process_usage;
pub mod process_watch;
pub mod profiler;
pub mod pull_records;
pub mod rotated_logs;
pub mod system_cgroups;
pub mod termination_messages;
pub mod usage;
pub mod user_namespaces;
