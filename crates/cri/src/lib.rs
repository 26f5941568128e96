//! The Container Runtime Interface (CRI).
//!
//! [`v1`] is the protocol, generated from `proto/runtime/v1/api.proto`: messages, clients and
//! server traits. [`CriClient`] implements the runtime ports: it converts `model` values to CRI
//! messages, calls the runtime over gRPC, and converts the responses to `model` values.
//!
//! Invariants: every call has a deadline, except image pulls and event streams; the client reconnects
//! after a lost connection; a response that violates the CRI becomes an error, never a guess.
//!
//! Out of scope: retries of calls, decisions, and special cases for a particular runtime.

mod client;
mod convert;
pub mod faults;
mod list_calls;
mod list_fingerprint;
pub mod v1;

pub use client::{CriClient, DEFAULT_REQUEST_TIMEOUT, Endpoint, EndpointError, TraceParentOf, connect};
