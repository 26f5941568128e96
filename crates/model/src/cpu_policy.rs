/// Whether containers get exclusive CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuPolicy {
    #[default]
    None,
    /// Guaranteed containers that request whole CPUs get exclusive ones.
    Static { quota: ExclusiveQuota },
}

/// The gate `DisableCPUQuotaWithExclusiveCPUs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusiveQuota {
    /// The CPUs themselves limit the container; a quota would only throttle it.
    None,
    /// The quota of the container's limit applies too.
    Limit,
}

/// Options of the static CPU policy. The configuration's validation refuses those that exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPolicyOptions {
    pub placement: CpuPlacement,
    /// `full-pcpus-only`: a container gets whole cores, or its pod is rejected.
    pub full_cores_only: bool,
    /// `strict-cpu-reservation`: containers without exclusive CPUs do not run on reserved CPUs either.
    pub strict_reservation: bool,
    /// `align-by-socket`: CPUs of one socket count as aligned.
    pub align_by_socket: bool,
}

/// Where the CPUs of one container come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuPlacement {
    /// As few sockets, NUMA nodes and cores as possible.
    #[default]
    Packed,
    /// `prefer-align-cpus-by-uncorecache`: as few L3 caches as possible.
    PackedByUncoreCache,
    /// `distribute-cpus-across-numa`: the same number from each NUMA node, if one node is not enough.
    AcrossNumaNodes,
    /// `distribute-cpus-across-cores`: as many cores as possible.
    AcrossCores,
}
