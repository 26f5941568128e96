use crate::ContainerLabels;

/// Which cgroup interface a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy for each controller (or a hybrid set-up, whose unified hierarchy has no controllers).
    V1,
    /// One hierarchy for all.
    V2,
}

/// What the machine's kernel offers to containers; fixed at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCapabilities {
    /// Cgroup interface in use.
    pub cgroup_version: CgroupVersion,
    /// Whether cgroups can limit swap.
    pub swap_controller: bool,
    /// Sizes of huge pages as runtimes name them (`2MB`), in the kernel's order.
    pub hugepage_sizes: Vec<String>,
    /// Folders of CPUs that reveal the host's temperature to containers.
    pub masked_cpu_paths: Vec<String>,
    /// The policy's labels, on a machine where SELinux labels matter.
    pub selinux: Option<ContainerLabels>,
}
