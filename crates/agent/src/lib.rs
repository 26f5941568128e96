//! The stages of the agent and the services beside them.
//!
//! ```text
//!  sources ─► desired ─► sync_loop ─► pod_workers ─► pod_runtime ─► [runtime] ─► pleg ─► sync_loop
//!                            ▲                                                    │
//!                            └── housekeeping, requeues, probe results            └─► status
//! ```
//! Comes in: ports to the world and settings. Goes out: one `run` future per stage. Stages talk through channels
//! and the three published tables (`DesiredPods`, `WorkerViews`, `ObservedPods`), each with one writer.
//!
//! Invariants: no stage imports another; events only wake, state is always read from the tables; every choice
//! is made in `decide`.

pub mod agent_facts;
pub mod allocations;
pub mod api_deadline;
pub mod api_pods;
pub mod claims;
pub mod cluster_objects;
pub mod cluster_supplies;
pub mod container_gc;
pub mod csi_allocatable;
pub mod csi_drivers;
pub mod csi_registration;
pub mod csi_volumes;
pub mod desired;
pub mod event_delivery;
pub mod event_log;
pub mod eviction;
pub mod file_report;
pub mod followed;
pub mod image_gc;
pub mod images;
pub mod kept_status;
pub mod lease;
pub mod log_rotation;
pub mod memory;
pub mod messages;
pub mod metered_cgroups;
pub mod metered_csi;
pub mod metered_volumes;
pub mod metrics;
pub mod mirror_pods;
pub mod node;
pub mod node_cgroups;
pub mod node_inputs;
pub mod node_shutdown;
pub mod node_view;
pub mod object_hints;
pub mod objects;
pub mod observation;
pub mod oom_watcher;
pub mod packet_filter;
pub mod pleg;
pub mod plugin_registry;
pub mod pod_certificates;
pub mod pod_gauges;
pub mod pod_resources;
pub mod pod_runtime;
pub mod pod_workers;
pub mod probes;
pub mod published;
pub mod pull_ledger;
pub mod runtime_health;
mod save_retry;
pub mod source_report;
pub mod sources;
pub mod statistics;
pub mod status;
pub mod status_delivery;
pub mod supplies_memory;
pub mod sweeper;
pub mod sweeping;
pub mod sync_loop;
pub mod system_cgroups;
#[cfg(test)]
mod test_checkpoints;
pub mod timeline;
pub mod tokens;
pub mod user_namespaces;
