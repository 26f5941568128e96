//! Limits of pod cgroups, of their parents, and of reserved cgroups.

pub mod allocatable;
pub mod cgroup_limits;
pub mod memory_qos;
pub mod qos_cgroups;
pub mod qos_memory_limits;
pub mod reserved_cgroups;
pub mod system_cgroups;
