//! Between `model` values and CRI messages. Total, except where the other side can break its word.

pub(crate) mod container;
pub(crate) mod figures;
pub(crate) mod image;
pub(crate) mod labels;
pub(crate) mod resources;
pub(crate) mod sandbox;
mod security;
pub(crate) mod service;

/// Something that an answer must have and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap(pub(crate) &'static str);
