//! The seams: one small trait for each thing the agent needs from the world.
//!
//! Comes in: `model` values. Goes out: traits whose documentation is their contract, including what a
//! failure means. Each has a real adapter (`cri`, `host`) and a fake in `testkit`.
//!
//! It deliberately holds no implementation beyond the system clock.

pub mod api;
pub mod call_meter;
pub mod certificate_meter;
pub mod checkpoints;
pub mod client_certificates;
pub mod clock;
pub mod credential_sources;
pub mod csi;
pub mod csi_folders;
pub mod env_files;
pub mod event_recorder;
pub mod filesystems;
pub mod folder_watch;
pub mod host_facts;
pub mod kernel_log;
pub mod log_files;
pub mod log_level;
pub mod logind;
pub mod memory_thresholds;
pub mod node_logs;
pub mod objects;
pub mod outbound;
pub mod packet_filter;
pub mod plugin_registry;
pub mod pod_cgroups;
pub mod pod_folders;
pub mod pod_logs;
pub mod pod_resources;
pub mod pod_statistics;
pub mod pod_syncer;
pub mod pod_volumes;
pub mod process_usage;
pub mod process_watch;
pub mod profiler;
pub mod pull_records;
pub mod request_meter;
pub mod rotated_logs;
pub mod runtime;
pub mod system_cgroups;
pub mod termination_messages;
pub mod trace;
pub mod usage;
pub mod user_namespaces;
