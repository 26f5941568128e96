//! The stages of the agent and the services beside them.
//!
//! ```text
//!  sources ─► desired ─► sync_loop ─► pod_workers ─► pod_runtime ─► [runtime] ─► pleg ─► sync_loop
//!                            ▲                                                    │
//!                            └── housekeeping, requeues, probe results            └─► status
//! ```
//! Each stage is built from its ports, channels and settings, and runs as one future. Stages communicate through channels
//! and published tables (desired pods, worker views, observed pods and others), each with one writer.
//!
//! Invariants: no stage imports another; events only wake a stage, which then reads the state from the tables; every
//! decision is made in `decide`.

pub mod cluster;
pub mod dynamic_resources;
pub mod images;
pub mod metrics;
pub mod node;
pub mod pipeline;
mod save_retry;
pub mod state_format;
pub mod statistics;
#[cfg(test)]
mod test_checkpoints;
pub mod upkeep;
pub mod volumes;
