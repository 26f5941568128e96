use crate::HugepageLimit;

/// Limits of a cgroup; `None` leaves a limit unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// CPU weight on the scale of cgroup v1 (2 to 262144).
    pub cpu_shares: Option<u64>,
    /// CPU time per period in microseconds; -1 for no limit.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<i64>,
    pub pids: Option<i64>,
    pub hugepages: HugepageLimits,
}

/// Limits on hugepages of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HugepageLimits {
    #[default]
    Unchanged,
    Unlimited,
    /// By size; a size that is not listed is limited to zero.
    Sizes(Vec<HugepageLimit>),
}
