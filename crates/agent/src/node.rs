//! The Node object: what the API server knows of this machine, and what it is told.

pub mod watch;
