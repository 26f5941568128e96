//! How many exclusive CPUs a container or a pod requests.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use model::{ContainerRef, CpuPolicy, ExclusiveQuota, NodeSettings, Pod, PodLevelManagement};

use crate::pipeline::pod_actions::is_sidecar;
use crate::pod_resources::qos::{QosClass, pod_qos_class};
use crate::quantity::amount_in;

/// The number of exclusive CPUs that a container gets; 0 if it shares those of the node or of its pod.
pub fn exclusive_request(pod: &Pod, container: &Container, management: PodLevelManagement) -> usize {
    if pod_qos_class(pod) != QosClass::Guaranteed {
        return 0;
    }
    if has_pod_level_resources(pod) {
        let is_exclusive = match management {
            PodLevelManagement::Unmanaged => false,
            PodLevelManagement::PerContainer => is_guaranteed(container),
            PodLevelManagement::PerPod => is_guaranteed(container) && pod_level_request(pod) > 0,
        };
        if !is_exclusive {
            return 0;
        }
    }
    whole_cpus(container.resources.as_ref())
}

/// The number of CPUs that a pod with pod-level resources owns as a whole.
pub(super) fn pod_level_request(pod: &Pod) -> usize {
    let is_guaranteed = pod_qos_class(pod) == QosClass::Guaranteed;
    if is_guaranteed { whole_cpus(pod.spec.resources.as_ref()) } else { 0 }
}

fn whole_cpus(resources: Option<&ResourceRequirements>) -> usize {
    let amount = amount_in(resources.and_then(|resources| resources.requests.as_ref()), "cpu");
    let is_whole = amount.units().saturating_mul(1000) == amount.milli();
    if is_whole { usize::try_from(amount.units()).unwrap_or(0) } else { 0 }
}

/// Whether the container's own requests equal its limits, whatever the resources of its pod.
pub(crate) fn is_guaranteed(container: &Container) -> bool {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    ["cpu", "memory"].iter().all(|name| {
        let request = amount_in(requests, name);
        !request.is_zero() && request == amount_in(limits, name)
    })
}

/// Whether CPUs and memory are allocated to the pod as a whole, and then divided among its containers.
pub fn is_allocated_as_whole(pod: &Pod, management: PodLevelManagement) -> bool {
    management == PodLevelManagement::PerPod && has_pod_level_resources(pod)
}

/// Whether the CPUs of a container, and not a quota, limit its CPU time.
pub(crate) fn runs_without_quota(pod: &Pod, container: &Container, settings: &NodeSettings) -> bool {
    settings.cpu_policy == CpuPolicy::Static { quota: ExclusiveQuota::None }
        && exclusive_request(pod, container, settings.gates.pod_level_management) > 0
}

/// Whether no quota limits the CPU time of a pod as a whole.
pub(crate) fn pod_runs_without_quota(pod: &Pod, settings: &NodeSettings) -> bool {
    let is_exclusive = |entry: ContainerRef<'_>| runs_without_quota(pod, entry.container, settings);
    if settings.gates.pod_level_management.is_managed() && has_pod_level_resources(pod) {
        // Containers without exclusive CPUs must not use more than the pod's limit.
        return pod.containers().all(is_exclusive);
    }
    pod.containers().any(is_exclusive)
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
pub(super) fn pod_request(pod: &Pod, management: PodLevelManagement) -> usize {
    if is_allocated_as_whole(pod, management) {
        return pod_level_request(pod);
    }
    let exclusive_request = |container: &Container| exclusive_request(pod, container, management);
    let (mut sidecars, mut init_peak) = (0, 0);
    for container in pod.spec.init_containers.iter().flatten() {
        let request = exclusive_request(container);
        if is_sidecar(container) {
            sidecars += request;
        } else {
            init_peak = init_peak.max(sidecars + request);
        }
    }
    let regular: usize = pod.spec.containers.iter().map(exclusive_request).sum();
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
    fn pod_with_own_resources_has_a_quota_unless_all_containers_are_exclusive() {
        let own = |containers: Vec<Value>| {
            let list = json!({"cpu": "4", "memory": "1Gi"});
            test_objects::pod(
                json!({"resources": {"requests": list, "limits": list}, "containers": containers}),
            )
        };
        let mixed = own(vec![container("app", "3"), json!({"name": "helper"})]);
        let exclusive = own(vec![container("app", "3"), container("other", "1")]);
        let fraction = own(vec![container("app", "2500m"), container("other", "1")]);
        for (management, pod, quotas, of_pod) in [
            (PodLevelManagement::PerPod, &mixed, [-1, 400_000], 400_000),
            (PodLevelManagement::PerContainer, &mixed, [-1, 400_000], 400_000),
            (PodLevelManagement::Unmanaged, &mixed, [300_000, 400_000], 400_000),
            (PodLevelManagement::PerPod, &exclusive, [-1, -1], -1),
            (PodLevelManagement::PerPod, &fraction, [250_000, -1], 400_000),
        ] {
            let gates = PodGates { pod_level_management: management, ..PodGates::default() };
            let policy = CpuPolicy::Static { quota: ExclusiveQuota::None };
            let settings = NodeSettings { gates, ..with_policy(policy) };
            let found =
                pod.spec.containers.iter().map(|own| container_resources(pod, own, &settings).cpu_quota);
            assert_eq!(found.collect::<Vec<_>>(), quotas, "{management:?}");
            assert_eq!(pod_cgroup_limits(pod, &settings).cpu_quota, Some(of_pod), "{management:?}");
        }
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
        assert_eq!(pod_request(&pod, PodLevelManagement::Unmanaged), 5);
    }
}
