//! The stages that process a pod, from its source to its status, and the services that they share.

pub mod allocations;
pub mod cached_status;
pub mod desired;
pub mod device_plugins;
pub mod exclusive_cpus;
pub mod managed_resources;
pub mod messages;
pub mod observation;
pub mod pinned_memory;
pub mod pleg;
pub mod plugin_devices;
pub mod pod_runtime;
pub mod pod_workers;
pub mod probes;
pub mod requeues;
pub(crate) mod resource_state_file;
pub mod source_report;
pub mod sources;
pub mod status;
pub mod sync_loop;
pub mod tables;
pub mod timeline;
pub mod user_namespaces;
