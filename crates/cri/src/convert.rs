//! Conversions between `model` values and CRI messages. They only fail if a runtime violates the CRI.

pub(crate) mod container;
pub(crate) mod image;
pub(crate) mod labels;
pub(crate) mod resources;
pub(crate) mod sandbox;
mod security;
pub(crate) mod service;
pub(crate) mod stats;

/// A required field is missing from a response. The text completes "the runtime sent ...".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MissingField(pub(crate) &'static str);
