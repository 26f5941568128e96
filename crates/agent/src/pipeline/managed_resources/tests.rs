use std::path::Path;

use decide::cpus::StaticPolicy;
use decide::topology::AlignmentOptions;
use futures::FutureExt as _;
use model::{CpuLocation, CpuPolicyOptions, CpuTopology, NumaNode, PodSource};
use serde_json::json;
use testkit::builders;
use values::cpu_set::CpuSet;

use super::*;
use crate::metrics::Format;
use crate::test_checkpoints::Files;

/// Two NUMA nodes with four CPUs each. The first CPU is reserved.
async fn resources(policy: AlignmentPolicy, scope: AlignmentScope) -> ManagedResources {
    managed_resources(policy, scope, PodLevelManagement::Unmanaged).await
}

async fn managed_resources(
    policy: AlignmentPolicy,
    scope: AlignmentScope,
    management: PodLevelManagement,
) -> ManagedResources {
    let location = |core| CpuLocation { numa_node: core / 4, socket: core / 4, core, uncore_cache: 0 };
    let topology = CpuTopology {
        cpus: (0..8).map(|cpu| (cpu, location(i32::try_from(cpu).unwrap()))).collect(),
        cpu_count: 8,
        core_count: 8,
        socket_count: 2,
    };
    let cpus = StaticPolicy::new(topology, CpuPolicyOptions::default(), 1000, &CpuSet::new()).unwrap();
    let nodes = [0, 1].map(|id| NumaNode { id, ..NumaNode::default() });
    let alignment = Alignment::new(policy, scope, AlignmentOptions::default(), &nodes).unwrap();
    let (files, metrics) = (Arc::new(Files::default()), Arc::new(Metrics::new()));
    let cpus = ExclusiveCpus::restore(files, Path::new("/r"), Some(cpus), management, metrics.clone())
        .await
        .unwrap();
    ManagedResources::new(Some(alignment), cpus, PinnedMemory::default(), metrics)
        .with_pod_level_management(management)
}

fn pod(uid: &str, cpus: &[u32]) -> Pod {
    let container = |(index, cpus): (usize, &u32)| {
        let resources = json!({"cpu": cpus.to_string(), "memory": "1Mi"});
        json!({"name": format!("c{index}"), "resources": {"requests": resources, "limits": resources}})
    };
    let containers: Vec<_> = cpus.iter().enumerate().map(container).collect();
    builders::pod(uid, PodSource::Api, json!({"containers": containers}))
}

fn admit(resources: &ManagedResources, pod: &Pod) -> Result<Admission, Rejection> {
    resources.admit(pod).now_or_never().expect("CPUs are allocated at once")
}

fn cpus(resources: &ManagedResources, pod: &Pod, container: &str) -> String {
    resources.cpus().exclusive(&pod.uid, container).to_string()
}

#[tokio::test]
async fn containers_are_aligned_on_different_nodes_in_container_scope_only() {
    let two = pod("two", &[3, 4]);
    let resources_of = |scope| resources(AlignmentPolicy::SingleNumaNode, scope);
    let by_container = resources_of(AlignmentScope::Container).await;
    admit(&by_container, &two).unwrap();
    assert_eq!(cpus(&by_container, &two, "c0"), "1-3");
    assert_eq!(cpus(&by_container, &two, "c1"), "4-7");
    let by_pod = resources_of(AlignmentScope::Pod).await;
    let rejection = admit(&by_pod, &two).unwrap_err();
    assert_eq!(rejection.reason, "TopologyAffinityError");
    assert_eq!(rejection.message, "Resources cannot be allocated with Topology locality");
    let text = by_pod.metrics.encode(Format::Text);
    for line in [
        "kubelet_topology_manager_admission_requests_total 1\n",
        "kubelet_topology_manager_admission_errors_total 1\n",
        "kubelet_container_aligned_compute_resources_count{scope=\"pod\",boundary=\"numa_node\"} 0\n",
        "kubelet_container_aligned_compute_resources_failure_count{scope=\"pod\",boundary=\"numa_node\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test]
async fn rejected_pod_keeps_no_cpus_of_its_first_containers() {
    let resources = resources(AlignmentPolicy::Restricted, AlignmentScope::Container).await;
    let late = pod("late", &[3, 4, 1]);
    assert_eq!(admit(&resources, &late).unwrap_err().reason, "TopologyAffinityError");
    assert!(resources.cpus().owners(&late.uid).is_empty());
    let admission = admit(&resources, &pod("next", &[3, 4])).unwrap();
    resources.undo(&admission);
    assert!(resources.cpus().owners(&"next".into()).is_empty(), "a later check rejected the pod");
    admit(&resources, &pod("last", &[4, 3])).unwrap();
}

#[tokio::test]
async fn failed_admission_of_a_resize_keeps_the_cpus_of_the_pod() {
    let resources = resources(AlignmentPolicy::Restricted, AlignmentScope::Container).await;
    let own = pod("own", &[2]);
    admit(&resources, &own).unwrap();
    assert_eq!(admit(&resources, &pod("own", &[3])).unwrap_err().reason, "TopologyAffinityError");
    assert_eq!(cpus(&resources, &own, "c0"), "1-2");
    let again = admit(&resources, &own).unwrap();
    resources.undo(&again);
    assert_eq!(cpus(&resources, &own, "c0"), "1-2");
}

#[tokio::test]
async fn best_effort_policy_prefers_the_node_with_enough_cpus() {
    let resources = resources(AlignmentPolicy::BestEffort, AlignmentScope::Container).await;
    let own = pod("own", &[4]);
    admit(&resources, &own).unwrap();
    assert_eq!(cpus(&resources, &own, "c0"), "4-7");
    admit(&resources, &pod("rest", &[3])).unwrap();
    let rejection = admit(&resources, &pod("late", &[1])).unwrap_err();
    assert_eq!(rejection.reason, "UnexpectedAdmissionError");
}

/// A pod with pod-level resources. The first container has resources, the second has none.
fn pod_with_own_resources(uid: &str, total: u32, exclusive: u32) -> Pod {
    let resources = |cpus: u32| json!({"cpu": cpus.to_string(), "memory": "1Mi"});
    let list = |cpus| json!({"requests": resources(cpus), "limits": resources(cpus)});
    let spec = json!({
        "resources": list(total),
        "containers": [{"name": "app", "resources": list(exclusive)}, {"name": "helper"}],
    });
    builders::pod(uid, PodSource::Api, spec)
}

#[tokio::test]
async fn pod_with_own_resources_gets_cpus_as_a_whole_in_pod_scope() {
    let resources =
        managed_resources(AlignmentPolicy::SingleNumaNode, AlignmentScope::Pod, PodLevelManagement::PerPod)
            .await;
    let own = pod_with_own_resources("own", 4, 3);
    admit(&resources, &own).unwrap();
    assert_eq!((cpus(&resources, &own, "app"), cpus(&resources, &own, "helper")), ("4-6".into(), "7".into()));
    admit(&resources, &own).unwrap();
    assert_eq!(cpus(&resources, &own, "app"), "4-6", "a pod that is admitted again keeps its CPUs");
    let rejection = admit(&resources, &pod_with_own_resources("late", 4, 1)).unwrap_err();
    assert_eq!(
        (rejection.reason.as_ref(), rejection.message.as_ref()),
        (
            "TopologyAffinityError",
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
        )
    );
    let text = resources.metrics.encode(Format::Text);
    for line in [
        "resource_manager_allocations_total{resource_name=\"cpu\",source=\"pod\"} 2\n",
        "resource_manager_container_assignments{resource_name=\"cpu\",assignment_type=\"pod_exclusive\"} 1\n",
        "resource_manager_container_assignments{resource_name=\"cpu\",assignment_type=\"pod_shared\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    resources.retain(|uid, _| *uid != own.uid);
    admit(&resources, &pod_with_own_resources("next", 4, 1)).unwrap();
}

#[tokio::test]
async fn containers_of_pods_with_own_resources_get_cpus_one_by_one_in_container_scope() {
    let scope = AlignmentScope::Container;
    let resources =
        managed_resources(AlignmentPolicy::Restricted, scope, PodLevelManagement::PerContainer).await;
    let own = pod_with_own_resources("own", 4, 3);
    admit(&resources, &own).unwrap();
    assert_eq!(
        (cpus(&resources, &own, "app"), cpus(&resources, &own, "helper")),
        ("1-3".into(), String::new())
    );
    let late = pod_with_own_resources("late", 6, 5);
    assert_eq!(
        admit(&resources, &late).unwrap_err().message,
        "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
    );
    let text = resources.metrics.encode(Format::Text);
    let line = "resource_manager_allocations_total{resource_name=\"cpu\",source=\"node\"} 1\n";
    assert!(text.contains(line), "{text}");
}
