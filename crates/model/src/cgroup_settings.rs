/// Settings of cgroups above the pods, and of swap; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSettings {
    /// `enforceNodeAllocatable`.
    pub enforced: Vec<Enforcement>,
    /// `systemReservedCgroup`.
    pub system_cgroup: String,
    /// `kubeReservedCgroup`.
    pub kube_cgroup: String,
    /// Swap of the machine in bytes.
    pub swap: u64,
    pub swap_behavior: SwapBehavior,
    /// Whether the kernel may swap out a tmpfs: there is swap, and no `noswap` mount option.
    pub memory_may_be_swapped: bool,
}

/// Which pods may use swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwapBehavior {
    #[default]
    NoSwap,
    /// Burstable pods, in proportion to their memory requests.
    LimitedSwap,
}

/// A reservation that a cgroup enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The sum of all pods.
    Pods,
    /// All resources of `systemReserved`.
    SystemReserved,
    /// Only the CPU of `systemReserved`.
    SystemReservedCompressible,
    /// All resources of `kubeReserved`.
    KubeReserved,
    /// Only the CPU of `kubeReserved`.
    KubeReservedCompressible,
}
