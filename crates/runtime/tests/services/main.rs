//! The services of CRI with real containers, called by the generated clients.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adoption;
mod lifecycle;
mod node;
mod settings;
mod surroundings;
mod user_namespaces;
