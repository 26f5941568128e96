//! Where pods come from. Each source sends its whole set whenever it may have changed.
//!
//! A new source needs only a task that sends [`model::Snapshot`]s.

pub mod api;
pub mod file;
pub mod http;
mod reader;

pub use reader::{ManifestReader, Reading};
