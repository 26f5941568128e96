//! Converts requests and limits of pods to kernel values.

use values::quantity::Amount;

mod oom_score;
mod pod_totals;
mod swap;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::{CgroupVersion, HugepageLimit, LinuxResources, NodeSettings, Pod};

use crate::cgroups::memory_qos;
use crate::cpus::runs_without_quota;
use crate::quantity::{ResourceList, amount_in, amount_of};
pub use oom_score::oom_score_adj;
pub use pod_totals::{ResourceTotals, declared_limit, pod_limits, pod_requests, pod_requests_with_overhead};
pub use swap::{may_swap, swap_limit};

pub const MIN_CPU_SHARES: i64 = 2;
pub const MAX_CPU_SHARES: i64 = 262_144;

const SHARES_PER_CPU: i64 = 1024;
const MILLI_PER_CPU: i64 = 1000;
/// In microseconds.
const MIN_CFS_QUOTA: i64 = 1000;
/// For the kernel and the CRI, where 0 means unchanged.
pub const NO_CFS_QUOTA: i64 = -1;
const HUGEPAGES_PREFIX: &str = "hugepages-";

/// CPU shares for millicores.
pub fn cpu_shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_PER_CPU) / MILLI_PER_CPU).clamp(MIN_CPU_SHARES, MAX_CPU_SHARES)
}

/// CFS quota for millicores; `period` and result in microseconds. 0 means no quota.
pub fn cfs_quota(milli: i64, period: i64) -> i64 {
    if milli == 0 { 0 } else { (milli.saturating_mul(period) / MILLI_PER_CPU).max(MIN_CFS_QUOTA) }
}

/// Resources of one container. Pod-level limits replace missing limits of the container.
pub fn container_resources(pod: &Pod, container: &Container, settings: &NodeSettings) -> LinuxResources {
    let own = container.resources.as_ref();
    let requests = requests_of(own);
    let limit = |name| {
        let limit = amount_in(limits_of(own), name);
        if limit.is_zero() { amount_in(limits_of(pod.spec.resources.as_ref()), name) } else { limit }
    };
    let cpu_request =
        requests.filter(|list| list.contains_key("cpu")).map(|list| amount_in(Some(list), "cpu"));
    let mut resources = LinuxResources {
        oom_score_adj: oom_score_adj(pod, container, settings.memory_capacity),
        hugepages: hugepage_limits(pod, own, &settings.capabilities.hugepage_sizes),
        ..linux_resources(cpu_request, limit("cpu"), limit("memory"), settings)
    };
    limit_swap(&mut resources, settings, swap_limit(pod, container, settings));
    resources.unified.extend(memory_qos::container_settings(pod, container, settings));
    if settings.cpu_cfs_quota && runs_without_quota(pod, container, settings) {
        resources.cpu_quota = NO_CFS_QUOTA;
    }
    resources
}

/// Sums over the containers of a pod, which the runtime receives with the sandbox for information.
pub fn sandbox_resources(pod: &Pod, settings: &NodeSettings) -> LinuxResources {
    let limits = pod_limits(pod);
    let limit = |name| limits.get(name).copied().unwrap_or_default();
    linux_resources(pod_requests(pod).get("cpu").copied(), limit("cpu"), limit("memory"), settings)
}

/// Overhead of the pod's runtime class, as request and limit; empty without overhead.
pub fn overhead_resources(pod: &Pod, settings: &NodeSettings) -> LinuxResources {
    let Some(overhead) = &pod.spec.overhead else { return LinuxResources::default() };
    let cpu = amount_in(Some(overhead), "cpu");
    linux_resources(Some(cpu), cpu, amount_in(Some(overhead), "memory"), settings)
}

fn linux_resources(
    cpu_request: Option<Amount>,
    cpu_limit: Amount,
    memory_limit: Amount,
    settings: &NodeSettings,
) -> LinuxResources {
    let mut resources = LinuxResources {
        cpu_shares: cpu_shares(cpu_request.unwrap_or(cpu_limit).milli()),
        memory_limit_bytes: memory_limit.units(),
        ..LinuxResources::default()
    };
    if settings.cpu_cfs_quota {
        resources.cpu_period = i64::try_from(settings.cpu_cfs_quota_period.as_micros()).unwrap_or(i64::MAX);
        resources.cpu_quota = cfs_quota(cpu_limit.milli(), resources.cpu_period);
    }
    if settings.capabilities.cgroup_version == CgroupVersion::V2 && !settings.single_process_oom_kill {
        resources.unified.insert("memory.oom.group".to_owned(), "1".to_owned());
    }
    resources
}

/// Limits swap to `bytes`, as far as the kernel supports it. On cgroup v1 the limit covers memory and swap together, and
/// needs a memory limit.
fn limit_swap(resources: &mut LinuxResources, settings: &NodeSettings, bytes: i64) {
    match settings.capabilities.cgroup_version {
        _ if !settings.capabilities.swap_controller => {}
        CgroupVersion::V1 => resources.memory_swap_limit_bytes = resources.memory_limit_bytes,
        CgroupVersion::V2 => {
            resources.unified.insert("memory.swap.max".to_owned(), bytes.to_string());
        }
    }
}

/// Limits for each page size of the node, 0 by default. Limits of the container take precedence over those of the pod.
fn hugepage_limits(
    pod: &Pod,
    own: Option<&ResourceRequirements>,
    page_sizes: &[String],
) -> Vec<HugepageLimit> {
    let lists = [limits_of(pod.spec.resources.as_ref()), limits_of(own)];
    let mut limits = BTreeMap::new();
    for (name, quantity) in lists.into_iter().flatten().flatten() {
        if let Some(page_size) = hugepage_size(name) {
            limits.insert(page_size, u64::try_from(amount_of(quantity).units()).unwrap_or(0));
        }
    }
    let limit_of = |page_size: &String| HugepageLimit {
        page_size: page_size.clone(),
        limit: limits.get(page_size).copied().unwrap_or(0),
    };
    page_sizes.iter().map(limit_of).collect()
}

/// The kernel's name for the page size of a resource (`hugepages-2Mi`).
pub(crate) fn hugepage_size(resource: &str) -> Option<String> {
    let size = resource.strip_prefix(HUGEPAGES_PREFIX).and_then(Amount::parse)?;
    page_size_name(size.units())
}

/// The kernel's name of a page size (`2MB`); `None` if no unit divides it.
fn page_size_name(bytes: i64) -> Option<String> {
    let mut size = bytes;
    let mut units = ["B", "KB", "MB", "GB", "TB", "PB"].into_iter().peekable();
    let mut unit = units.next()?;
    while size > 0 && size % 1024 == 0 && units.peek().is_some() {
        size /= 1024;
        unit = units.next()?;
    }
    (0 < size && size <= 1024).then(|| format!("{size}{unit}"))
}

fn limits_of(resources: Option<&ResourceRequirements>) -> Option<&ResourceList> {
    resources?.limits.as_ref()
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Option<&ResourceList> {
    resources?.requests.as_ref()
}

#[cfg(test)]
mod tests;
