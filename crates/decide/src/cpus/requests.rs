//! How many exclusive CPUs a container or a pod requests.

use k8s_openapi::api::core::v1::Container;
use model::{ContainerRef, CpuPolicy, ExclusiveQuota, NodeSettings, Pod};

use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::amount_in;

/// The number of exclusive CPUs that a container gets; 0 if it runs in the shared pool.
pub fn exclusive_request(pod: &Pod, container: &Container) -> usize {
    // Pods with pod-level resources get none: upstream needs an alpha feature for them.
    if pod_qos_class(pod) != QosClass::Guaranteed || has_pod_level_resources(pod) {
        return 0;
    }
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let amount = amount_in(requests, "cpu");
    let is_whole = amount.units().saturating_mul(1000) == amount.milli();
    if is_whole { usize::try_from(amount.units()).unwrap_or(0) } else { 0 }
}

/// Whether the CPUs of a container, and not a quota, limit its CPU time.
pub(crate) fn runs_without_quota(pod: &Pod, container: &Container, settings: &NodeSettings) -> bool {
    settings.cpu_policy == CpuPolicy::Static { quota: ExclusiveQuota::None }
        && exclusive_request(pod, container) > 0
}

/// Whether a resize would change the number of exclusive CPUs, or make CPUs exclusive.
pub(crate) fn resizes_exclusive_cpus(desired: &Pod, allocated: &Pod, settings: &NodeSettings) -> bool {
    matches!(settings.cpu_policy, CpuPolicy::Static { .. })
        && resizes_guaranteed_pod(desired, allocated, "cpu")
}

/// Whether a resize changes requests for a resource that Guaranteed pods own.
pub(crate) fn resizes_guaranteed_pod(desired: &Pod, allocated: &Pod, resource: &str) -> bool {
    let request = |container: &Container| {
        amount_in(container.resources.as_ref().and_then(|own| own.requests.as_ref()), resource)
    };
    let differs = |entry: ContainerRef<'_>| {
        let before = allocated.container(&entry.container.name);
        before.is_some_and(|before| request(before.container) != request(entry.container))
    };
    pod_qos_class(desired) == QosClass::Guaranteed && desired.containers().any(differs)
}

/// The largest number of exclusive CPUs that the containers of a pod use at the same time.
pub(super) fn pod_request(pod: &Pod) -> usize {
    let (mut sidecars, mut init_peak) = (0, 0);
    for container in pod.spec.init_containers.iter().flatten() {
        let request = exclusive_request(pod, container);
        if is_sidecar(container) {
            sidecars += request;
        } else {
            init_peak = init_peak.max(sidecars + request);
        }
    }
    let regular: usize = pod.spec.containers.iter().map(|container| exclusive_request(pod, container)).sum();
    init_peak.max(regular + sidecars)
}

pub(crate) fn has_pod_level_resources(pod: &Pod) -> bool {
    let resources = pod.spec.resources.as_ref();
    let lists = resources.map(|own| [own.requests.as_ref(), own.limits.as_ref()]);
    lists
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .any(|(name, _)| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"))
}

#[cfg(test)]
mod tests {
    use model::{MemoryManagerPolicy, PodGates};
    use serde_json::{Value, json};

    use super::*;
    use crate::cgroups::cgroup_limits::pod_cgroup_limits;
    use crate::pod_resources::allocation::{InfeasibleReason, infeasible};
    use crate::pod_resources::resources::container_resources;
    use crate::runtime_spec::pod_paths::tests::settings;
    use crate::test_objects;

    fn container(name: &str, cpu: &str) -> Value {
        let resources = json!({"cpu": cpu, "memory": "1Mi"});
        json!({"name": name, "resources": {"requests": resources, "limits": resources}})
    }

    fn pod(cpus: &[&str]) -> Pod {
        let containers: Vec<Value> =
            cpus.iter().enumerate().map(|(index, cpu)| container(&format!("c{index}"), cpu)).collect();
        test_objects::pod(json!({"containers": containers}))
    }

    fn with_policy(cpu_policy: CpuPolicy) -> NodeSettings {
        NodeSettings { cpu_policy, cpu_cfs_quota: true, ..settings() }
    }

    #[test]
    fn exclusive_containers_and_their_pods_have_no_quota() {
        let static_policy = |quota| CpuPolicy::Static { quota };
        for (policy, cpus, quotas, of_pod) in [
            (static_policy(ExclusiveQuota::None), ["1", "2"], [-1, -1], -1),
            (static_policy(ExclusiveQuota::None), ["1", "500m"], [-1, 50_000], -1),
            (static_policy(ExclusiveQuota::None), ["1500m", "500m"], [150_000, 50_000], 200_000),
            (static_policy(ExclusiveQuota::Limit), ["1", "2"], [100_000, 200_000], 300_000),
            (CpuPolicy::None, ["1", "2"], [100_000, 200_000], 300_000),
        ] {
            let (pod, settings) = (pod(&cpus), with_policy(policy));
            let found =
                pod.spec.containers.iter().map(|own| container_resources(&pod, own, &settings).cpu_quota);
            assert_eq!(found.collect::<Vec<_>>(), quotas, "{policy:?} {cpus:?}");
            assert_eq!(pod_cgroup_limits(&pod, &settings).cpu_quota, Some(of_pod), "{policy:?} {cpus:?}");
        }
        let unlimited =
            NodeSettings { cpu_cfs_quota: false, ..with_policy(static_policy(ExclusiveQuota::None)) };
        let pod = pod(&["1"]);
        assert_eq!(container_resources(&pod, &pod.spec.containers[0], &unlimited).cpu_quota, 0);
    }

    #[test]
    fn static_cpu_policy_makes_cpu_resizes_of_guaranteed_pods_infeasible() {
        let settings = with_policy(CpuPolicy::Static { quota: ExclusiveQuota::None });
        let (before, after) = (pod(&["1"]), pod(&["2"]));
        let reason = infeasible(&after, &before, &settings);
        assert_eq!(reason, Some(InfeasibleReason::StaticCpuPolicy));
        assert_eq!(
            reason.unwrap().message(),
            "Resize is infeasible for Guaranteed Pods alongside CPU Manager policy \"static\""
        );
        assert_eq!(infeasible(&before, &before, &settings), None);
        let gates = PodGates { exclusive_cpu_resize: true, ..settings.gates };
        let allowed = NodeSettings { gates, ..settings };
        assert_eq!(infeasible(&after, &before, &allowed), None);
        assert_eq!(infeasible(&after, &before, &with_policy(CpuPolicy::None)), None);
    }

    #[test]
    fn static_memory_policy_makes_memory_resizes_of_guaranteed_pods_infeasible() {
        let settings = NodeSettings { memory_policy: MemoryManagerPolicy::Static, ..settings() };
        let (before, mut after) = (pod(&["1"]), pod(&["1"]));
        let resources = json!({"cpu": "1", "memory": "2Mi"});
        after.spec.containers[0].resources =
            serde_json::from_value(json!({"requests": resources, "limits": resources})).unwrap();
        let reason = infeasible(&after, &before, &settings).unwrap();
        assert_eq!(
            reason.message(),
            "Resize is infeasible for Guaranteed Pods alongside Memory Manager policy \"Static\""
        );
        assert_eq!(reason.label(), "guaranteed_pod_memory_manager_static_policy");
        assert_eq!(infeasible(&before, &before, &settings), None);
        let gates = PodGates { exclusive_memory_resize: true, ..settings.gates };
        assert_eq!(infeasible(&after, &before, &NodeSettings { gates, ..settings }), None);
    }

    #[test]
    fn pod_requests_the_peak_of_its_containers() {
        let mut sidecar = container("s", "1");
        sidecar["restartPolicy"] = json!("Always");
        let pod = test_objects::pod(json!({
            "initContainers": [container("a", "2"), sidecar, container("b", "4")],
            "containers": [container("c", "1"), container("d", "2")],
        }));
        assert_eq!(pod_request(&pod), 5);
    }
}
