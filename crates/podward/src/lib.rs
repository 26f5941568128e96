//! The podward binary: commands, configuration, wiring, supervision, signals.
//!
//! Comes in: arguments. Goes out: an exit code. [`wire`] connects the stages of `agent` to their adapters and
//! decides nothing; everything else here starts and stops the agent.

mod agent_metrics;
pub mod check;
pub mod command;
pub mod configz;
pub mod join;
pub mod logging;
pub mod plan;
mod pod_cidr;
pub mod run;
pub mod service_manager;
pub mod serving;
mod trace_export;
pub mod version;
pub mod wire;

#[cfg(test)]
mod gates_tests;
