//! Allocated and actuated resources in pod and container statuses.

use k8s_openapi::api::core::v1::{Container, ContainerStatus as ApiStatus, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{CgroupLimits, ContainerState, ContainerStatus, LinuxResources, Pod};
use values::quantity::{Amount, binary_si, decimal_si_from_milli};

use crate::pod_resources::resources::{
    MIN_CPU_SHARES, ResourceTotals, pod_limits, pod_requests as request_totals,
};
use crate::quantity::{ResourceList, amount_in, amount_of};

/// Smallest CPU limit that the kernel can represent, in millicores.
const MIN_MILLI_CPU_LIMIT: i64 = 10;

/// Resources of the spec; for a running container with the values that the runtime reports as actuated.
pub(super) fn container_resources(
    container: &Container,
    status: &ContainerStatus,
    old: Option<&ApiStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if status.state != ContainerState::Running {
        return resources;
    }
    let actuated = status.resources.as_ref();
    let old = old.filter(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
    let old = old
        .filter(|old| old.container_id.as_deref().is_some_and(|id| id.ends_with(status.id.as_str())))
        .and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        show_limits(limits, actuated, old.and_then(|old| old.limits.as_ref()));
    }
    if let Some(requests) = &mut resources.requests {
        show_requests(requests, actuated, old.and_then(|old| old.requests.as_ref()));
    }
    resources
}

/// Total requests of the pod.
pub(super) fn pod_requests(pod: &Pod) -> Option<ResourceList> {
    let mut list = quantities(pod, &request_totals(pod), |resources| resources.requests.as_ref());
    // Overhead counts even for resources that no container requests.
    for (name, quantity) in pod.spec.overhead.iter().flatten() {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
    (!list.is_empty()).then_some(list)
}

/// Total requests and limits of the pod.
pub(super) fn pod_resources(pod: &Pod) -> ResourceRequirements {
    let limits = quantities(pod, &pod_limits(pod), |resources| resources.limits.as_ref());
    ResourceRequirements {
        requests: pod_requests(pod),
        limits: (!limits.is_empty()).then_some(limits),
        claims: pod.spec.resources.as_ref().and_then(|resources| resources.claims.clone()),
    }
}

/// Pod-level resources of a running pod with the values of its cgroup. Values that the cgroup does not have are taken
/// from the previous status; memory requests are not part of any cgroup.
pub(super) fn actuated_pod_resources(
    pod: &Pod,
    cgroup: Option<&CgroupLimits>,
    previous: Option<&PodStatus>,
) -> ResourceRequirements {
    let own = pod.spec.resources.clone().unwrap_or_default();
    let old = previous.filter(|previous| previous.phase.as_deref() == Some("Running"));
    let old = old.and_then(|old| old.resources.as_ref());
    let actuated = cgroup.map(|cgroup| LinuxResources {
        cpu_shares: number(cgroup.cpu_shares),
        cpu_quota: cgroup.cpu_quota.unwrap_or_default(),
        cpu_period: number(cgroup.cpu_period),
        memory_limit_bytes: cgroup.memory.unwrap_or_default(),
        ..LinuxResources::default()
    });
    let mut requests = own.requests.unwrap_or_default();
    if let (false, Some(sum)) =
        (requests.contains_key("memory"), pod_requests(pod).and_then(|mut sums| sums.remove("memory")))
    {
        requests.insert("memory".to_owned(), sum);
    }
    show_requests(&mut requests, actuated.as_ref(), old.and_then(|old| old.requests.as_ref()));
    let mut limits = own.limits.unwrap_or_default();
    show_limits(&mut limits, actuated.as_ref(), old.and_then(|old| old.limits.as_ref()));
    let some = |list: ResourceList| (!list.is_empty()).then_some(list);
    ResourceRequirements { requests: some(requests), limits: some(limits), claims: own.claims }
}

/// Replaces the limits by the actuated ones, or by those of the previous status.
fn show_limits(limits: &mut ResourceList, actuated: Option<&LinuxResources>, old: Option<&ResourceList>) {
    match actuated.and_then(cpu_limit) {
        Some(milli) => replace_cpu(limits, milli, MIN_MILLI_CPU_LIMIT),
        None => keep_previous(limits, old, "cpu"),
    }
    match actuated.map(|resources| resources.memory_limit_bytes).filter(|bytes| *bytes > 0) {
        Some(bytes) => {
            limits.insert("memory".to_owned(), Quantity(binary_si(bytes)));
        }
        None => keep_previous(limits, old, "memory"),
    }
}

/// Replaces the CPU request by the actuated one, or by that of the previous status.
fn show_requests(requests: &mut ResourceList, actuated: Option<&LinuxResources>, old: Option<&ResourceList>) {
    match actuated.and_then(cpu_request) {
        Some(milli) => replace_cpu(requests, milli, MIN_CPU_SHARES),
        None => keep_previous(requests, old, "cpu"),
    }
    keep_previous(requests, old, "memory");
}

fn number(count: Option<u64>) -> i64 {
    i64::try_from(count.unwrap_or_default()).unwrap_or(i64::MAX)
}

type ResourceListSelector = fn(&ResourceRequirements) -> Option<&ResourceList>;

/// Totals with overhead, in the notation of the first quantity of the sum.
fn quantities(pod: &Pod, totals: &ResourceTotals, list_of: ResourceListSelector) -> ResourceList {
    let spec = &pod.spec;
    let of_containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let parts: Vec<&ResourceList> = spec
        .resources
        .iter()
        .chain(of_containers.filter_map(|container| container.resources.as_ref()))
        .filter_map(list_of)
        .collect();
    let write = |(name, total): (&String, &Amount)| {
        let total = *total + amount_in(spec.overhead.as_ref(), name);
        let texts = || parts.iter().filter_map(|list| list.get(name));
        let same = texts().find(|quantity| amount_of(quantity) == total);
        let is_binary = texts()
            .find(|quantity| !amount_of(quantity).is_zero())
            .is_some_and(|first| first.0.ends_with('i'));
        let text = match same {
            Some(quantity) => quantity.0.clone(),
            None if is_binary => binary_si(total.units()),
            None => decimal_si_from_milli(total.milli()),
        };
        (name.clone(), Quantity(text))
    };
    totals.iter().map(write).collect()
}

fn cpu_limit(resources: &LinuxResources) -> Option<i64> {
    let LinuxResources { cpu_quota, cpu_period, .. } = resources;
    let milli = cpu_quota.saturating_mul(1000).checked_div(*cpu_period)?;
    (*cpu_period > 0 && milli > 0).then_some(milli)
}

fn cpu_request(resources: &LinuxResources) -> Option<i64> {
    let shares = resources.cpu_shares;
    // Round up, because the conversion to shares rounded down.
    (shares >= MIN_CPU_SHARES).then(|| shares.saturating_mul(1000).saturating_add(1023) / 1024)
}

/// Keeps the allocated value if both values are below the minimum that the kernel can represent.
fn replace_cpu(list: &mut ResourceList, milli: i64, minimum: i64) {
    if milli > minimum || amount_in(Some(list), "cpu").milli() > minimum {
        list.insert("cpu".to_owned(), Quantity(decimal_si_from_milli(milli)));
    }
}

fn keep_previous(list: &mut ResourceList, old: Option<&ResourceList>, name: &str) {
    if let Some(quantity) = old.and_then(|old| old.get(name)) {
        list.insert(name.to_owned(), quantity.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::pod;

    const MIB: i64 = 1024 * 1024;

    fn shown(pod: &Pod, cgroup: Option<&CgroupLimits>, previous: Option<&PodStatus>) -> [String; 2] {
        let resources = actuated_pod_resources(pod, cgroup, previous);
        let text = |list: &Option<ResourceList>| {
            let entries = list.iter().flatten().map(|(name, quantity)| format!("{name}={}", quantity.0));
            entries.collect::<Vec<_>>().join(" ")
        };
        [text(&resources.requests), text(&resources.limits)]
    }

    fn cgroup(shares: u64, quota: i64, memory: Option<i64>) -> CgroupLimits {
        CgroupLimits {
            cpu_shares: Some(shares),
            cpu_quota: Some(quota),
            cpu_period: Some(100_000),
            memory,
            ..CgroupLimits::default()
        }
    }

    #[test]
    fn running_pod_shows_cgroup_limits() {
        let sized = pod(serde_json::json!({
            "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}},
            "containers": [{"name": "a"}]}));
        let limits = cgroup(256, 200_000, Some(256 * MIB));
        assert_eq!(shown(&sized, Some(&limits), None), ["cpu=250m memory=64Mi", "cpu=2 memory=256Mi"]);
        // CPU requests are rounded up, because the conversion to shares rounds down.
        let limits = cgroup(103, 12_345, None);
        assert_eq!(shown(&sized, Some(&limits), None), ["cpu=101m memory=64Mi", "cpu=123m memory=128Mi"]);
    }

    #[test]
    fn shows_allocated_cpu_below_kernel_minimum() {
        let minimum = pod(serde_json::json!({
            "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}, "containers": [{"name": "a"}]}));
        assert_eq!(shown(&minimum, Some(&cgroup(2, 1000, None)), None), ["cpu=1m", "cpu=5m"]);
        let nothing = pod(serde_json::json!({"containers": [{"name": "a"}]}));
        assert_eq!(shown(&nothing, Some(&cgroup(2, -1, None)), None), ["", ""]);
    }

    #[test]
    fn sums_memory_requests_but_reads_cpu_from_cgroup() {
        let summed = pod(serde_json::json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"memory": "1Mi"}}}]}));
        assert_eq!(shown(&summed, Some(&cgroup(1024, -1, None)), None), ["cpu=1 memory=2Mi", ""]);
    }

    #[test]
    fn keeps_previous_values_missing_in_cgroup_while_pod_runs() {
        let bare = pod(serde_json::json!({"containers": [{"name": "a"}]}));
        let mut before = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
        before.resources = Some(
            serde_json::from_value(serde_json::json!({
                "requests": {"cpu": "3", "memory": "3Mi"}, "limits": {"cpu": "4", "memory": "4Mi"}}))
            .unwrap(),
        );
        let all = ["cpu=3 memory=3Mi", "cpu=4 memory=4Mi"];
        assert_eq!(shown(&bare, None, Some(&before)), all);
        let limits = cgroup(1024, 50_000, Some(MIB));
        assert_eq!(shown(&bare, Some(&limits), Some(&before)), ["cpu=1 memory=3Mi", "cpu=500m memory=1Mi"]);
        before.phase = Some("Pending".into());
        assert_eq!(shown(&bare, None, Some(&before)), ["", ""]);
    }
}
