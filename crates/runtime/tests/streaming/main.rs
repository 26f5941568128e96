//! The streaming server with processes of this machine: protocols, limits and ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clients;
mod local_backend;
mod port_forward;
mod processes;
mod requests;
