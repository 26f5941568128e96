//! Image names, pulls, credentials, access checks and garbage collection.

pub mod credentials;
pub mod image_access;
pub mod image_gc;
pub mod image_pull;
