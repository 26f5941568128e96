//! The podward binary: commands, configuration, wiring, supervision, signals.
//!
//! Comes in: arguments. Goes out: an exit code. [`wire`] connects the stages of `agent` to the world and decides
//! nothing; everything else here is about starting and stopping.

mod agent_facts;
mod cgroup_plan;
pub mod check;
pub mod cluster_plan;
pub mod command;
pub mod debug_plan;
mod eviction_plan;
mod identity_plan;
pub mod join;
pub mod logging;
pub mod node_plan;
pub mod plan;
mod pod_cidr;
pub mod registration_plan;
pub mod run;
pub mod self_portrait;
pub mod server_plan;
pub mod service_manager;
pub mod serving;
pub mod shutdown_plan;
mod statistics_plan;
mod trace_export;
pub mod wire;

#[cfg(test)]
mod gates_tests;
