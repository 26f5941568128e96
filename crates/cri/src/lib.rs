//! The Container Runtime Interface (CRI).
//!
//! [`v1`] is the protocol, generated from `proto/runtime/v1/api.proto`: messages, clients and
//! server traits. [`CriClient`] is the client side of the runtime ports: orders and questions of the
//! agent come in as `model` values, go out as gRPC over a unix socket or any other channel, and the
//! answers come back as `model` values.
//!
//! Invariants: every call has a deadline, except those that the contract leaves open (pulls, event
//! streams); a lost connection is made anew by itself; an answer that breaks the contract becomes
//! an error, never a guess.
//!
//! Not here: retries of calls, decisions, and any knowledge of which runtime is at the other end.

mod brief;
mod client;
mod convert;
mod glance;
pub mod v1;

pub use client::{CriClient, DEFAULT_REQUEST_TIMEOUT, Endpoint, EndpointError, connect};
