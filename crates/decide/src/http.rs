//! Requests to the node API.

pub mod partial_content;
pub mod request_attributes;
pub mod streaming;
