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

/// Resources of the spec; for a running container with the actuated values. `recorded` are those that the agent recorded as
/// actuated: the runtime reports no memory requests, and some runtimes report nothing.
pub(super) fn container_resources(
    container: &Container,
    status: &ContainerStatus,
    recorded: Option<&ResourceRequirements>,
    old: Option<&ApiStatus>,
) -> ResourceRequirements {
    let mut resources = container.resources.clone().unwrap_or_default();
    if status.state != ContainerState::Running {
        return resources;
    }
    let actuated = ActuatedResources::of_container(status.resources.as_ref(), recorded);
    let old = old.filter(|old| old.state.as_ref().is_some_and(|state| state.running.is_some()));
    let old = old
        .filter(|old| old.container_id.as_deref().is_some_and(|id| id.ends_with(status.id.as_str())))
        .and_then(|old| old.resources.as_ref());
    if let Some(limits) = &mut resources.limits {
        show_limits(limits, &actuated, old.and_then(|old| old.limits.as_ref()));
    }
    if let Some(requests) = &mut resources.requests {
        show_requests(requests, &actuated, old.and_then(|old| old.requests.as_ref()));
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
/// from the previous status. No cgroup has a memory request, so it stays as first reported even after a resize, as upstream
/// reports it; `allocatedResources` has the current one.
pub(super) fn actuated_pod_resources(
    pod: &Pod,
    cgroup: Option<&CgroupLimits>,
    previous: Option<&PodStatus>,
) -> ResourceRequirements {
    let own = pod.spec.resources.clone().unwrap_or_default();
    let old = previous.filter(|previous| previous.phase.as_deref() == Some("Running"));
    let old = old.and_then(|old| old.resources.as_ref());
    let actuated = cgroup.map(ActuatedResources::of_cgroup).unwrap_or_default();
    let mut requests = own.requests.unwrap_or_default();
    if let (false, Some(sum)) =
        (requests.contains_key("memory"), pod_requests(pod).and_then(|mut sums| sums.remove("memory")))
    {
        requests.insert("memory".to_owned(), sum);
    }
    show_requests(&mut requests, &actuated, old.and_then(|old| old.requests.as_ref()));
    let mut limits = own.limits.unwrap_or_default();
    show_limits(&mut limits, &actuated, old.and_then(|old| old.limits.as_ref()));
    let some = |list: ResourceList| (!list.is_empty()).then_some(list);
    ResourceRequirements { requests: some(requests), limits: some(limits), claims: own.claims }
}

/// Resources in force; `None` for a value that is not known.
#[derive(Clone, Debug, Default, PartialEq)]
struct ActuatedResources {
    /// In millicores.
    cpu_request: Option<i64>,
    cpu_limit: Option<i64>,
    memory_request: Option<Quantity>,
    memory_limit: Option<Quantity>,
}

impl ActuatedResources {
    /// The values that the runtime reports, completed by the recorded memory request. All values are recorded ones if the
    /// runtime reports none.
    fn of_container(reported: Option<&LinuxResources>, recorded: Option<&ResourceRequirements>) -> Self {
        let reported = reported.map(Self::of_cgroup_values).unwrap_or_default();
        let Some(recorded) = recorded else { return reported };
        let (requests, limits) = (recorded.requests.as_ref(), recorded.limits.as_ref());
        let quantity = |list: Option<&ResourceList>, name: &str| {
            list.and_then(|list| list.get(name)).cloned().unwrap_or_else(|| Quantity("0".to_owned()))
        };
        if reported == Self::default() {
            return Self {
                cpu_request: Some(amount_in(requests, "cpu").milli()),
                cpu_limit: Some(amount_in(limits, "cpu").milli()),
                memory_request: Some(quantity(requests, "memory")),
                memory_limit: Some(quantity(limits, "memory")),
            };
        }
        let memory_request = quantity(requests, "memory");
        let is_requested = !amount_of(&memory_request).is_zero();
        Self { memory_request: is_requested.then_some(memory_request), ..reported }
    }

    fn of_cgroup(cgroup: &CgroupLimits) -> Self {
        Self::of_cgroup_values(&LinuxResources {
            cpu_shares: number(cgroup.cpu_shares),
            cpu_quota: cgroup.cpu_quota.unwrap_or_default(),
            cpu_period: number(cgroup.cpu_period),
            memory_limit_bytes: cgroup.memory.unwrap_or_default(),
            ..LinuxResources::default()
        })
    }

    fn of_cgroup_values(values: &LinuxResources) -> Self {
        let bytes = Some(values.memory_limit_bytes).filter(|bytes| *bytes > 0);
        Self {
            cpu_request: cpu_request(values),
            cpu_limit: cpu_limit(values),
            memory_request: None,
            memory_limit: bytes.map(|bytes| Quantity(binary_si(bytes))),
        }
    }
}

/// Replaces the limits by the actuated ones, or by those of the previous status.
fn show_limits(limits: &mut ResourceList, actuated: &ActuatedResources, old: Option<&ResourceList>) {
    show_cpu(limits, actuated.cpu_limit, MIN_MILLI_CPU_LIMIT, old);
    show_memory(limits, actuated.memory_limit.as_ref(), old);
}

/// Replaces the requests by the actuated ones, or by those of the previous status.
fn show_requests(requests: &mut ResourceList, actuated: &ActuatedResources, old: Option<&ResourceList>) {
    show_cpu(requests, actuated.cpu_request, MIN_CPU_SHARES, old);
    show_memory(requests, actuated.memory_request.as_ref(), old);
}

/// Keeps the allocated value if both values are below the minimum that the kernel can represent.
fn show_cpu(list: &mut ResourceList, actuated: Option<i64>, minimum: i64, old: Option<&ResourceList>) {
    match actuated {
        Some(milli) if milli > minimum || amount_in(Some(list), "cpu").milli() > minimum => {
            list.insert("cpu".to_owned(), Quantity(decimal_si_from_milli(milli)));
        }
        Some(_) => {}
        None => keep_previous(list, old, "cpu"),
    }
}

fn show_memory(list: &mut ResourceList, actuated: Option<&Quantity>, old: Option<&ResourceList>) {
    match actuated {
        Some(quantity) => {
            list.insert("memory".to_owned(), quantity.clone());
        }
        None => keep_previous(list, old, "memory"),
    }
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

fn keep_previous(list: &mut ResourceList, old: Option<&ResourceList>, name: &str) {
    if let Some(quantity) = old.and_then(|old| old.get(name)) {
        list.insert(name.to_owned(), quantity.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_objects::pod;

    const MIB: i64 = 1024 * 1024;

    fn shown(pod: &Pod, cgroup: Option<&CgroupLimits>, previous: Option<&PodStatus>) -> [String; 2] {
        texts(&actuated_pod_resources(pod, cgroup, previous))
    }

    fn texts(resources: &ResourceRequirements) -> [String; 2] {
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
        let sized = pod(json!({
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
        let minimum = pod(json!({
            "resources": {"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}, "containers": [{"name": "a"}]}));
        assert_eq!(shown(&minimum, Some(&cgroup(2, 1000, None)), None), ["cpu=1m", "cpu=5m"]);
        let nothing = pod(json!({"containers": [{"name": "a"}]}));
        assert_eq!(shown(&nothing, Some(&cgroup(2, -1, None)), None), ["", ""]);
    }

    #[test]
    fn sums_memory_requests_but_reads_cpu_from_cgroup() {
        let summed = pod(json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"memory": "1Mi"}}}]}));
        assert_eq!(shown(&summed, Some(&cgroup(1024, -1, None)), None), ["cpu=1 memory=2Mi", ""]);
    }

    /// The shown resources of a running container with these spec resources, reported values, recorded and previous
    /// resources; `null` for none.
    fn shown_container(
        spec: &Value,
        reported: Option<LinuxResources>,
        recorded: Value,
        previous: &Value,
    ) -> [String; 2] {
        let container = serde_json::from_value(json!({"name": "a", "resources": spec})).unwrap();
        let status = ContainerStatus {
            resources: reported,
            ..crate::test_objects::container("id", "a", 0, ContainerState::Running)
        };
        let recorded: Option<ResourceRequirements> = serde_json::from_value(recorded).unwrap();
        let old: ApiStatus = serde_json::from_value(json!({
            "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0, "containerID": "x://id",
            "state": {"running": {}}, "resources": previous}))
        .unwrap();
        texts(&container_resources(&container, &status, recorded.as_ref(), Some(&old)))
    }

    #[test]
    fn running_container_shows_recorded_memory_request() {
        let spec = json!({"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"memory": "96Mi"}});
        let recorded =
            || json!({"requests": {"cpu": "100m", "memory": "48Mi"}, "limits": {"memory": "80Mi"}});
        let previous = json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "50Mi"}});
        let reported = || {
            Some(LinuxResources {
                cpu_shares: 307,
                memory_limit_bytes: 88 * MIB,
                ..LinuxResources::default()
            })
        };
        let nothing = || Some(LinuxResources::default());
        for (reported, recorded, expected) in [
            // The runtime does not report memory requests.
            (reported(), recorded(), ["cpu=300m memory=48Mi", "memory=88Mi"]),
            (reported(), Value::Null, ["cpu=300m memory=32Mi", "memory=88Mi"]),
            (reported(), json!({}), ["cpu=300m memory=32Mi", "memory=88Mi"]),
            // containerd 1.6 reports nothing.
            (None, recorded(), ["cpu=100m memory=48Mi", "memory=80Mi"]),
            (nothing(), recorded(), ["cpu=100m memory=48Mi", "memory=80Mi"]),
            (None, json!({"requests": {"cpu": "100m"}}), ["cpu=100m memory=0", "memory=0"]),
            (None, Value::Null, ["cpu=50m memory=32Mi", "memory=50Mi"]),
        ] {
            let text = format!("{reported:?} {recorded}");
            assert_eq!(shown_container(&spec, reported, recorded, &previous), expected, "{text}");
        }
    }

    #[test]
    fn keeps_previous_values_missing_in_cgroup_while_pod_runs() {
        let bare = pod(json!({"containers": [{"name": "a"}]}));
        let mut before = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
        before.resources = Some(
            serde_json::from_value(json!({
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
