//! Limits of a pod's cgroup.

use std::collections::BTreeMap;

use model::{CgroupLimits, HugepageLimit, HugepageLimits, NodeSettings, Pod};
use values::quantity::Amount;

use crate::cgroups::memory_qos;
use crate::cpus::pod_runs_without_quota;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::pod_resources::resources::{
    MIN_CPU_SHARES, NO_CFS_QUOTA, ResourceTotals, cfs_quota, cpu_shares, declared_limit, hugepage_size,
    pod_requests_with_overhead,
};

/// Limits of a pod's cgroup: CPU and memory by QoS class, hugepages by request, processes by the node's setting.
pub fn pod_cgroup_limits(pod: &Pod, settings: &NodeSettings) -> CgroupLimits {
    let requests = pod_requests_with_overhead(pod);
    let shares = match pod_qos_class(pod) {
        QosClass::Guaranteed | QosClass::Burstable => {
            cpu_shares(requests.get("cpu").copied().unwrap_or_default().milli())
        }
        // Overhead does not raise the weight.
        QosClass::BestEffort => MIN_CPU_SHARES,
    };
    let cpu = declared_limit(pod, "cpu").map(|limit| {
        let period = i64::try_from(settings.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX);
        let has_quota = settings.cpu_cfs_quota && !pod_runs_without_quota(pod, settings);
        let quota = if has_quota { cfs_quota(limit.milli(), period) } else { NO_CFS_QUOTA };
        (quota, period.unsigned_abs())
    });
    let (memory_min, memory_low) = memory_qos::pod_protection(pod, &requests, settings);
    CgroupLimits {
        cpus: None,
        cpu_shares: Some(shares.unsigned_abs()),
        cpu_quota: cpu.map(|(quota, _)| quota),
        cpu_period: cpu.map(|(_, period)| period),
        memory: declared_limit(pod, "memory").map(Amount::units),
        memory_min,
        memory_low,
        pids: Some(settings.pod_pids_limit).filter(|limit| *limit > 0),
        hugepages: HugepageLimits::Sizes(hugepages(&requests)),
    }
}

/// Requests serve as limits, because hugepages cannot be overcommitted. One size may have two spellings.
fn hugepages(requests: &ResourceTotals) -> Vec<HugepageLimit> {
    let mut by_size = BTreeMap::<String, Amount>::new();
    for (name, amount) in requests {
        if let Some(size) = hugepage_size(name) {
            let total = by_size.entry(size).or_default();
            *total = *total + *amount;
        }
    }
    let limit = |amount: Amount| u64::try_from(amount.units()).unwrap_or(0);
    by_size.into_iter().map(|(page_size, amount)| HugepageLimit { page_size, limit: limit(amount) }).collect()
}

#[cfg(test)]
mod tests;
