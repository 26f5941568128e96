//! Memory limits of the QoS classes (gate `QOSReserved`): memory that higher classes requested is not available to lower
//! ones.

use model::NodeSettings;

use super::memory_qos::pods_memory;
use super::qos_cgroups::QosRequests;

/// Memory limits in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QosMemoryLimits {
    pub burstable: i64,
    pub best_effort: i64,
}

/// The limits; `None` if nothing is reserved.
pub fn qos_memory_limits(requests: QosRequests, settings: &NodeSettings) -> Option<QosMemoryLimits> {
    let percent = settings.cgroups.qos_reserved_memory?;
    let reserved = |request: i64| request.saturating_mul(percent) / 100;
    let burstable = pods_memory(settings) - reserved(requests.guaranteed_memory);
    Some(QosMemoryLimits { burstable, best_effort: burstable - reserved(requests.burstable_memory) })
}

/// The limit for a second attempt, after the kernel has refused one below the usage of the cgroup.
pub fn limit_above_usage(limit: i64, usage: u64) -> i64 {
    limit.max(i64::try_from(usage).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime_spec::pod_paths::tests::settings;

    #[test]
    fn lower_classes_cannot_use_the_reserved_share_of_higher_ones() {
        let requests = QosRequests { burstable_cpu: 0, burstable_memory: 301, guaranteed_memory: 101 };
        let mut settings = settings();
        settings.resources.capacity = [("memory".to_owned(), 1000)].into();
        settings.resources.kube_reserved = [("memory".to_owned(), 60)].into();
        settings.resources.system_reserved = [("memory".to_owned(), 40)].into();
        assert_eq!(qos_memory_limits(requests, &settings), None);
        for (percent, burstable, best_effort) in [(0, 900, 900), (50, 850, 700), (100, 799, 498)] {
            settings.cgroups.qos_reserved_memory = Some(percent);
            let expected = QosMemoryLimits { burstable, best_effort };
            assert_eq!(qos_memory_limits(requests, &settings), Some(expected), "{percent}");
        }
        assert_eq!((limit_above_usage(10, 7), limit_above_usage(10, 11)), (10, 11));
    }
}
