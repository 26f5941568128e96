//! Limits of pod cgroups, of their parents, and of reserved cgroups.

pub mod allocatable;
pub mod cgroup_limits;
pub mod qos_cgroups;
pub mod reserved_cgroups;
pub mod system_cgroups;
