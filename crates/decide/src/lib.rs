//! Every choice the agent makes, as pure functions.
//!
//! Comes in: `model` values and `now`. Goes out: what should be done, with a reason. The order of the modules
//! follows a pod's way through the agent: sources are merged ([`merge`]), pods are admitted ([`admission`]),
//! a worker steps through its life ([`worker`]), one pass of it plans actions ([`pod_actions`]) and builds what
//! the runtime is asked for ([`sandbox_spec`], [`container_spec`]), observations become events
//! ([`runtime_events`]) and statuses ([`pod_status`]), and housekeeping sweeps up ([`housekeeping`]).
//!
//! Invariants: no IO, no clock, no randomness, no logging; the same input gives the same output.

pub mod admission;
pub mod allocatable;
pub mod allocation;
pub mod backoff;
pub mod cgroup_limits;
pub mod container_hash;
pub mod container_logs;
pub mod container_spec;
pub mod credentials;
pub mod csi_node;
pub mod dead_containers;
pub mod deadline;
pub mod dns;
pub mod environment;
pub mod event_correlation;
pub mod eviction;
pub mod explain;
pub mod go_duration;
pub mod grace;
pub mod hooks;
pub mod hosts_file;
pub mod housekeeping;
pub mod image_access;
pub mod image_gc;
pub mod image_pull;
pub mod log_rotation;
pub mod merge;
pub mod mirror_pods;
pub mod mounts;
pub mod node_lease;
pub mod node_logs;
pub mod node_shutdown;
pub mod node_status;
pub mod object_references;
pub mod object_restart;
pub mod offline;
pub mod packet_filter;
pub mod partial_content;
pub mod payloads;
pub mod pod_actions;
pub mod pod_certificates;
pub mod pod_paths;
pub mod pod_status;
pub mod probe;
pub mod proxies;
pub mod qos;
pub mod qos_cgroups;
pub mod quantity;
pub mod request_attributes;
pub mod requeue;
pub mod reserved_cgroups;
pub mod resize;
pub mod resize_requests;
pub mod resources;
pub mod runtime_class;
pub mod runtime_events;
pub mod sandbox_spec;
pub mod security;
pub mod service_account_tokens;
pub mod service_environment;
pub mod starts;
pub mod statistics;
pub mod status_patch;
pub mod status_report;
pub mod streaming;
pub mod system_cgroups;
pub mod system_oom;
pub mod termination;
pub mod termination_message;
pub mod terminations;
#[cfg(test)]
mod test_objects;
pub mod trust_bundles;
pub mod user_namespaces;
pub mod volumes;
pub mod worker;
