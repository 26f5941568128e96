//! What containers and the pod were given, in the API's quantities.

use k8s_openapi::api::core::v1::{Container, ContainerStatus as ApiStatus, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use model::{CgroupLimits, ContainerState, ContainerStatus, LinuxResources, Pod};

use crate::quantity::{Amount, ResourceList, text};
use crate::resources::{MIN_CPU_SHARES, Totals, pod_limits, pod_requests as request_totals};

/// The least CPU limit the kernel can hold, in thousandths.
const MIN_MILLI_CPU_LIMIT: i64 = 10;

/// What a container has: what the spec grants, and for a running one what the runtime says is in force.
pub(super) fn container_resources(
    container: &Container,
    status: &ContainerStatus,
    old: Option<&ApiStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if status.state != ContainerState::Running {
        return resources;
    }
    let in_force = status.resources.as_ref();
    let old = old.filter(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
    let old = old
        .filter(|old| old.container_id.as_deref().is_some_and(|id| id.ends_with(status.id.as_str())))
        .and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        let old = old.and_then(|old| old.limits.as_ref());
        match in_force.and_then(cpu_limit) {
            Some(milli) => replace_cpu(limits, milli, MIN_MILLI_CPU_LIMIT),
            None => keep(limits, old, "cpu"),
        }
        match in_force.map(|resources| resources.memory_limit_bytes).filter(|bytes| *bytes > 0) {
            Some(bytes) => {
                limits.insert("memory".to_owned(), Quantity(text::binary(bytes)));
            }
            None => keep(limits, old, "memory"),
        }
    }
    if let Some(requests) = &mut resources.requests {
        let old = old.and_then(|old| old.requests.as_ref());
        match in_force.and_then(cpu_request) {
            Some(milli) => replace_cpu(requests, milli, MIN_CPU_SHARES),
            None => keep(requests, old, "cpu"),
        }
        keep(requests, old, "memory");
    }
    resources
}

/// What the pod asks for in all.
pub(super) fn pod_requests(pod: &Pod) -> Option<ResourceList> {
    let mut list = quantities(pod, &request_totals(pod), |resources| resources.requests.as_ref());
    // What containers do not ask for is held all the same.
    for (name, quantity) in pod.spec.overhead.iter().flatten() {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
    (!list.is_empty()).then_some(list)
}

/// What the pod asks for and may have in all.
pub(super) fn pod_resources(pod: &Pod) -> ResourceRequirements {
    let limits = quantities(pod, &pod_limits(pod), |resources| resources.limits.as_ref());
    ResourceRequirements {
        requests: pod_requests(pod),
        limits: (!limits.is_empty()).then_some(limits),
        claims: pod.spec.resources.as_ref().and_then(|resources| resources.claims.clone()),
    }
}

/// What a running pod has: what its own fields grant, with what its cgroup holds. What the cgroup does not tell stays
/// as it was reported; the memory that is requested stands in no cgroup.
pub(super) fn pod_resources_in_force(
    pod: &Pod,
    cgroup: Option<&CgroupLimits>,
    previous: Option<&PodStatus>,
) -> ResourceRequirements {
    let own = pod.spec.resources.clone().unwrap_or_default();
    let old = previous.filter(|previous| previous.phase.as_deref() == Some("Running"));
    let old = old.and_then(|old| old.resources.as_ref());
    let old_requests = old.and_then(|old| old.requests.as_ref());
    let old_limits = old.and_then(|old| old.limits.as_ref());
    let in_force = cgroup.map(|cgroup| LinuxResources {
        cpu_shares: number(cgroup.cpu_shares),
        cpu_quota: cgroup.cpu_quota.unwrap_or_default(),
        cpu_period: number(cgroup.cpu_period),
        memory_limit_bytes: cgroup.memory.unwrap_or_default(),
        ..LinuxResources::default()
    });
    let mut requests = own.requests.unwrap_or_default();
    match in_force.as_ref().and_then(cpu_request) {
        Some(milli) => replace_cpu(&mut requests, milli, MIN_CPU_SHARES),
        None => keep(&mut requests, old_requests, "cpu"),
    }
    if let (false, Some(sum)) =
        (requests.contains_key("memory"), pod_requests(pod).and_then(|mut sums| sums.remove("memory")))
    {
        requests.insert("memory".to_owned(), sum);
    }
    keep(&mut requests, old_requests, "memory");
    let mut limits = own.limits.unwrap_or_default();
    match in_force.as_ref().and_then(cpu_limit) {
        Some(milli) => replace_cpu(&mut limits, milli, MIN_MILLI_CPU_LIMIT),
        None => keep(&mut limits, old_limits, "cpu"),
    }
    match in_force.map(|resources| resources.memory_limit_bytes).filter(|bytes| *bytes > 0) {
        Some(bytes) => {
            limits.insert("memory".to_owned(), Quantity(text::binary(bytes)));
        }
        None => keep(&mut limits, old_limits, "memory"),
    }
    let some = |list: ResourceList| (!list.is_empty()).then_some(list);
    ResourceRequirements { requests: some(requests), limits: some(limits), claims: own.claims }
}

fn number(count: Option<u64>) -> i64 {
    i64::try_from(count.unwrap_or_default()).unwrap_or(i64::MAX)
}

type ListOf = fn(&ResourceRequirements) -> Option<&ResourceList>;

/// Totals with overhead, written as the first of the quantities they are made of.
fn quantities(pod: &Pod, totals: &Totals, list_of: ListOf) -> ResourceList {
    let spec = &pod.spec;
    let of_containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let parts: Vec<&ResourceList> = spec
        .resources
        .iter()
        .chain(of_containers.filter_map(|container| container.resources.as_ref()))
        .filter_map(list_of)
        .collect();
    let write = |(name, total): (&String, &Amount)| {
        let total = *total + Amount::in_list(spec.overhead.as_ref(), name);
        let texts = || parts.iter().filter_map(|list| list.get(name));
        let same = texts().find(|quantity| Amount::of(quantity) == total);
        let is_binary = texts()
            .find(|quantity| !Amount::of(quantity).is_zero())
            .is_some_and(|first| first.0.ends_with('i'));
        let text = match same {
            Some(quantity) => quantity.0.clone(),
            None if is_binary => text::binary(total.units()),
            None => decimal(total.milli()),
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
    // Rounded up, as the shares were rounded down.
    (shares >= MIN_CPU_SHARES).then(|| shares.saturating_mul(1000).saturating_add(1023) / 1024)
}

/// Below what the kernel can tell apart, the granted value is the truth.
fn replace_cpu(list: &mut ResourceList, milli: i64, least: i64) {
    if milli > least || Amount::in_list(Some(list), "cpu").milli() > least {
        list.insert("cpu".to_owned(), Quantity(decimal(milli)));
    }
}

fn keep(list: &mut ResourceList, old: Option<&ResourceList>, name: &str) {
    if let Some(quantity) = old.and_then(|old| old.get(name)) {
        list.insert(name.to_owned(), quantity.clone());
    }
}

/// Thousandths with the largest decimal suffix that loses nothing.
fn decimal(milli: i64) -> String {
    if milli % 1000 != 0 {
        return format!("{milli}m");
    }
    text::decimal(milli / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_objects::pod;

    const MIB: i64 = 1024 * 1024;

    fn shown(pod: &Pod, cgroup: Option<&CgroupLimits>, previous: Option<&PodStatus>) -> [String; 2] {
        let resources = pod_resources_in_force(pod, cgroup, previous);
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
    fn a_running_pod_has_what_its_cgroup_holds() {
        let sized = pod(serde_json::json!({
            "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}},
            "containers": [{"name": "a"}]}));
        let held = cgroup(256, 200_000, Some(256 * MIB));
        assert_eq!(shown(&sized, Some(&held), None), ["cpu=250m memory=64Mi", "cpu=2 memory=256Mi"]);
        // Shares are rounded up, as they were rounded down.
        let held = cgroup(103, 12_345, None);
        assert_eq!(shown(&sized, Some(&held), None), ["cpu=101m memory=64Mi", "cpu=123m memory=128Mi"]);
    }

    #[test]
    fn what_the_kernel_cannot_tell_apart_is_what_was_granted() {
        let least = pod(serde_json::json!({
            "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}, "containers": [{"name": "a"}]}));
        assert_eq!(shown(&least, Some(&cgroup(2, 1000, None)), None), ["cpu=1m", "cpu=5m"]);
        let nothing = pod(serde_json::json!({"containers": [{"name": "a"}]}));
        assert_eq!(shown(&nothing, Some(&cgroup(2, -1, None)), None), ["", ""]);
    }

    #[test]
    fn sums_of_containers_are_read_from_the_cgroup_but_for_requested_memory() {
        let summed = pod(serde_json::json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"memory": "1Mi"}}}]}));
        assert_eq!(shown(&summed, Some(&cgroup(1024, -1, None)), None), ["cpu=1 memory=2Mi", ""]);
    }

    #[test]
    fn what_the_cgroup_does_not_tell_stays_as_reported_while_the_pod_runs() {
        let bare = pod(serde_json::json!({"containers": [{"name": "a"}]}));
        let mut before = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
        before.resources = Some(
            serde_json::from_value(serde_json::json!({
                "requests": {"cpu": "3", "memory": "3Mi"}, "limits": {"cpu": "4", "memory": "4Mi"}}))
            .unwrap(),
        );
        let all = ["cpu=3 memory=3Mi", "cpu=4 memory=4Mi"];
        assert_eq!(shown(&bare, None, Some(&before)), all);
        let held = cgroup(1024, 50_000, Some(MIB));
        assert_eq!(shown(&bare, Some(&held), Some(&before)), ["cpu=1 memory=3Mi", "cpu=500m memory=1Mi"]);
        before.phase = Some("Pending".into());
        assert_eq!(shown(&bare, None, Some(&before)), ["", ""]);
    }
}
