//! Real containers, started by a real keeper.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../streaming/clients.rs"]
#[allow(dead_code, reason = "the tests of the streaming server use all of it")]
mod clients;
mod confinement;
mod devices;
mod differential;
mod escapes;
mod lifecycle;
mod pod;
mod streaming;
mod streams;
mod user_namespaces;
