//! Every decision the agent makes, as pure functions.
//!
//! Inputs are `model` values and `now`; the output is what to do, with a reason. A pod passes the modules in this
//! order: [`pipeline::merge`] merges the sources, [`admission`] admits or rejects the pod, [`pipeline::worker`]
//! drives its state machine, each sync plans actions ([`pipeline::pod_actions`]) and builds the runtime requests
//! ([`runtime_spec::sandbox_spec`], [`runtime_spec::container_spec`]), observations become events
//! ([`pipeline::runtime_events`]) and a status ([`status::pod_status`]), and [`pipeline::housekeeping`] removes
//! orphans.
//!
//! Invariants: no I/O, no clock, no randomness, no logging; the same inputs give the same output.

pub mod admission;
pub mod cgroups;
pub mod cpus;
pub mod devices;
pub mod error_list;
pub mod event_correlation;
pub mod eviction;
mod go_text;
pub mod http;
pub mod images;
pub mod logs;
pub mod memory;
pub mod node;
pub mod pipeline;
pub mod pod_resources;
pub mod projected;
pub mod quantity;
pub mod resource_claims;
pub mod runtime_spec;
pub mod statistics;
pub mod status;
#[cfg(test)]
mod test_objects;
pub mod topology;
pub mod volumes;
#[cfg(test)]
mod whole_pods_tests;
