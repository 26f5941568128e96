//! Periodic cleanup: garbage collection, log rotation, orphans, and eviction under pressure.

pub mod container_gc;
pub mod eviction;
pub mod image_gc;
pub mod log_rotation;
pub mod sweep_claims;
pub mod sweeper;
