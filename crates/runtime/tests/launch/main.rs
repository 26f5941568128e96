//! Real containers, started by a real keeper.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod confinement;
mod devices;
mod differential;
mod escapes;
mod lifecycle;
mod pod;
mod streams;
mod user_namespaces;
