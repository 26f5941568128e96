//! From what was read to what is shown: `/stats/summary`, `/metrics/resource`, `/metrics/cadvisor`.
//!
//! Comes in: what runs (observed pods) and readings of cgroups, networks and disks. Goes out: the summary and metric
//! families in upstream's shape. Which cgroup belongs to which container is told here, too.

pub mod cadvisor;
pub mod claims;
mod families;
pub mod places;
pub mod rate;
pub mod readings;
pub mod resource;
pub mod summary;
#[cfg(test)]
mod tests;
