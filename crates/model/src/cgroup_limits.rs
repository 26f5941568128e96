use crate::HugepageLimit;

/// Limits of a cgroup; what is `None` is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Weight against the neighbours, on the scale of cgroup v1 (2 to 262144).
    pub cpu_shares: Option<u64>,
    /// CPU time in each period, in microseconds; -1 none.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// Processes and threads.
    pub pids: Option<i64>,
    /// Hugepages.
    pub hugepages: HugepageLimits,
}

/// Limits on hugepages of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HugepageLimits {
    /// Left as they are.
    #[default]
    Unchanged,
    /// As many as there are.
    Unlimited,
    /// By size; a size that is not listed may not be used at all.
    Sizes(Vec<HugepageLimit>),
}
