//! The content of `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor` in upstream's format, from observed pods and readings of
//! cgroups, networks and disks. Also maps cgroups to containers.

pub mod cadvisor;
pub mod claims;
mod families;
pub mod locations;
pub mod rate;
pub mod readings;
pub mod resource;
pub mod summary;
#[cfg(test)]
mod tests;
