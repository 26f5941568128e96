/// How the node uses cgroups beyond those of pods, and swap; fixed at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupSettings {
    /// `enforceNodeAllocatable`.
    pub enforced: Vec<Enforcement>,
    /// `systemReservedCgroup`.
    pub system_cgroup: String,
    /// `kubeReservedCgroup`.
    pub kube_cgroup: String,
    /// The machine's swap in bytes.
    pub swap: u64,
    /// Who may swap.
    pub swap_behavior: SwapBehavior,
    /// Volumes in memory may come to lie in swap: there is some, and the kernel cannot keep a tmpfs out of it.
    pub memory_may_be_swapped: bool,
}

/// Who may swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwapBehavior {
    /// Nobody.
    #[default]
    NoSwap,
    /// Burstable pods, in proportion to their memory requests.
    LimitedSwap,
}

/// A reservation that a cgroup enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// What is left for pods.
    Pods,
    /// `systemReserved` in whole.
    SystemReserved,
    /// CPU of `systemReserved`.
    SystemReservedCompressible,
    /// `kubeReserved` in whole.
    KubeReserved,
    /// CPU of `kubeReserved`.
    KubeReservedCompressible,
}
