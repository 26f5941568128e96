use crate::ContainerLabels;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy per controller, or a hybrid setup whose unified hierarchy has no controllers.
    V1,
    /// The unified hierarchy.
    V2,
}

/// Features of the kernel that containers use; fixed at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCapabilities {
    pub cgroup_version: CgroupVersion,
    /// Whether cgroups can limit swap.
    pub swap_controller: bool,
    /// Huge page sizes as runtimes name them (`2MB`), in the kernel's order.
    pub hugepage_sizes: Vec<String>,
    /// Thermal folders in sysfs, which are masked in containers.
    pub masked_cpu_paths: Vec<String>,
    /// Default labels of the SELinux policy, if SELinux is enabled.
    pub selinux: Option<ContainerLabels>,
}
