//! Container logs, node logs and log rotation.

pub mod container_logs;
pub mod log_rotation;
pub mod node_logs;
