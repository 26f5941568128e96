//! The ports: one small trait for each thing that the agent needs from outside.
//!
//! The modules are grouped by the adapter that implements them: [`api`] by `cluster`, [`runtime`] by `cri`, [`host`] by
//! `host`, [`plugins`] by `plugins`, [`outbound`] by `outbound`; [`served`] and [`telemetry`] by parts of the agent itself. The
//! documentation of a trait is its contract, including what a failure means.
//!
//! The crate has no implementation beyond the system clock.

#![warn(missing_docs)]

pub mod api;
pub mod clock;
pub mod host;
pub mod outbound;
pub mod plugins;
pub mod runtime;
pub mod served;
pub mod telemetry;
