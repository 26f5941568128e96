//! Pod sources. Each source sends a complete snapshot of its pods whenever they may have changed.
//!
//! A new source only needs a task that sends [`model::Snapshot`]s.

pub mod api;
pub mod file;
pub mod http;
mod reader;

pub use reader::{ManifestReader, Reading};
