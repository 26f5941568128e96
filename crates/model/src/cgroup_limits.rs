use values::cpu_set::CpuSet;

use crate::{CgroupDriver, HugepageLimit};

/// systemd's unit of CPU quotas, one percent of a CPU, in microseconds per second.
const SYSTEMD_QUOTA_UNIT: u64 = 10_000;

/// Limits of a cgroup; `None` leaves a limit unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// CPU weight on the scale of cgroup v1 (2 to 262144).
    pub cpu_shares: Option<u64>,
    /// CPU time per period in microseconds; -1 for no limit.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// CPUs that the cgroup may use; set on cgroup v2 only, because new cgroups of v1 take those of their parent.
    pub cpus: Option<CpuSet>,
    /// Memory in bytes.
    pub memory: Option<i64>,
    /// Memory that the kernel never reclaims, in bytes; set on cgroup v2 only.
    pub memory_min: Option<i64>,
    /// Memory that the kernel reclaims last, in bytes; set on cgroup v2 only.
    pub memory_low: Option<i64>,
    pub pids: Option<i64>,
    pub hugepages: HugepageLimits,
}

impl CgroupLimits {
    /// The limits that a driver sets. systemd keeps CPU quotas in whole percents; they are rounded up, so that a cgroup
    /// does not get less than the cgroups below it, and upstream writes the rounded quota to the cgroup as well.
    #[must_use]
    pub fn as_set_by(&self, driver: CgroupDriver) -> Self {
        match driver {
            CgroupDriver::Cgroupfs => self.clone(),
            CgroupDriver::Systemd => Self { cpu_quota: self.systemd_quota(), ..self.clone() },
        }
    }

    /// CPU quota for systemd's `CPUQuotaPerSecUSec`: microseconds per second, rounded up. `None` for no limit.
    #[must_use]
    pub fn systemd_quota_per_second(&self) -> Option<u64> {
        let quota = u64::try_from(self.cpu_quota?).ok().filter(|quota| *quota > 0)?;
        let exact = quota.saturating_mul(1_000_000) / self.systemd_period();
        Some(exact.div_ceil(SYSTEMD_QUOTA_UNIT).saturating_mul(SYSTEMD_QUOTA_UNIT))
    }

    /// The CFS period, or the kernel's default.
    #[must_use]
    pub fn systemd_period(&self) -> u64 {
        self.cpu_period.filter(|period| *period > 0).unwrap_or(100_000)
    }

    fn systemd_quota(&self) -> Option<i64> {
        let Some(per_second) = self.systemd_quota_per_second() else { return self.cpu_quota };
        i64::try_from(per_second.saturating_mul(self.systemd_period()) / 1_000_000).ok()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_rounds_cpu_quotas_up_to_whole_percents() {
        for (quota, period, per_second, set) in [
            (60_500, Some(100_000), Some(610_000), 61_000),
            (61_000, Some(100_000), Some(610_000), 61_000),
            (60_001, Some(100_000), Some(610_000), 61_000),
            (1_000, Some(100_000), Some(10_000), 1_000),
            (250_000, Some(100_000), Some(2_500_000), 250_000),
            (123_456, None, Some(1_240_000), 124_000),
            (500_000, Some(1_000_000), Some(500_000), 500_000),
            (500_000, Some(900_000), Some(560_000), 504_000),
            (3_333, Some(10_000), Some(340_000), 3_400),
            (-1, Some(100_000), None, -1),
            (0, Some(100_000), None, 0),
        ] {
            let limits =
                CgroupLimits { cpu_quota: Some(quota), cpu_period: period, ..CgroupLimits::default() };
            assert_eq!(limits.systemd_quota_per_second(), per_second, "{quota} {period:?}");
            let rounded = limits.as_set_by(CgroupDriver::Systemd);
            assert_eq!(rounded.cpu_quota, Some(set), "{quota} {period:?}");
            assert_eq!(rounded.as_set_by(CgroupDriver::Systemd), rounded, "{quota} {period:?}");
            assert_eq!(limits.as_set_by(CgroupDriver::Cgroupfs), limits);
        }
        let unchanged = CgroupLimits::default();
        assert_eq!(unchanged.as_set_by(CgroupDriver::Systemd), unchanged);
    }
}
