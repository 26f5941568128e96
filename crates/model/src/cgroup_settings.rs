/// Settings of cgroups above the pods, and of swap; fixed at start.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Gate `MemoryQoS` on cgroup v2.
    pub memory_qos: Option<MemoryQos>,
    /// `qosReserved` of memory: percentage of the requests of a QoS class that lower classes cannot use.
    pub qos_reserved_memory: Option<i64>,
}

/// Protection and throttling of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryQos {
    /// `memoryThrottlingFactor`.
    pub throttling_factor: f64,
    pub reservation: MemoryReservation,
    /// Size of a memory page in bytes.
    pub page_size: i64,
}

/// `memoryReservationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryReservation {
    #[default]
    None,
    /// The kernel never reclaims the requested memory of Guaranteed pods, and that of Burstable pods last.
    Tiered,
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
