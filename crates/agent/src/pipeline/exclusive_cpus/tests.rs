use std::path::Path;

use model::{CpuLocation, CpuPolicyOptions, CpuTopology, PodLevelManagement, PodSource};
use serde_json::{Value, json};
use testkit::builders;

use super::*;
use crate::metrics::Format;
use crate::test_checkpoints::Files;

/// Four CPUs, of which the first is reserved.
fn policy() -> StaticPolicy {
    let location = |core| CpuLocation { numa_node: 0, socket: 0, core, uncore_cache: 0 };
    let topology = CpuTopology {
        cpus: (0..4).map(|cpu| (cpu, location(i32::try_from(cpu).unwrap()))).collect(),
        cpu_count: 4,
        core_count: 4,
        socket_count: 1,
    };
    StaticPolicy::new(topology, CpuPolicyOptions::default(), 1000, &CpuSet::new()).unwrap()
}

fn pod(uid: &str, cpu: &str) -> Pod {
    let resources = json!({"cpu": cpu, "memory": "1Mi"});
    let spec =
        json!({"containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]});
    builders::pod(uid, PodSource::Api, spec)
}

fn allocate(cpus: &ExclusiveCpus, pod: &Pod) -> Result<(), Rejection> {
    cpus.allocate(pod, pod.containers().next().unwrap(), None)
}

async fn restore(files: &Arc<Files>, policy: Option<StaticPolicy>) -> Result<ExclusiveCpus, RestoreError> {
    let (metrics, management) = (Arc::new(Metrics::new()), PodLevelManagement::Unmanaged);
    ExclusiveCpus::restore(files.clone(), Path::new("/r"), policy, management, metrics).await
}

fn content(files: &Files) -> Value {
    serde_json::from_slice(&files.read(CPU_STATE).unwrap().1).unwrap()
}

#[tokio::test]
async fn state_survives_a_restart() {
    let files = Arc::new(Files::default());
    let cpus = restore(&files, Some(policy())).await.unwrap();
    assert_eq!(content(&files)["defaultCpuSet"], "0-3");
    let owner = pod("u", "2");
    allocate(&cpus, &owner).unwrap();
    cpus.flush().await.unwrap();
    cpus.flush().await.unwrap();
    assert_eq!(files.read(CPU_STATE).unwrap().0, 2, "an unchanged state is not written");
    let again = restore(&files, Some(policy())).await.unwrap();
    assert_eq!(again.exclusive(&owner.uid, "c").to_string(), "1-2");
    assert_eq!(again.effective(&"other".into(), "c").to_string(), "0,3");
    assert_eq!(again.allocatable().to_string(), "1-3");
    again.retain(|_, _| false);
    again.flush().await.unwrap();
    assert_eq!(content(&files)["defaultCpuSet"], "0-3");
}

#[tokio::test]
async fn failed_write_is_retried() {
    let files = Arc::new(Files::default());
    let cpus = restore(&files, Some(policy())).await.unwrap();
    allocate(&cpus, &pod("u", "1")).unwrap();
    files.fail_next_writes(1);
    assert!(cpus.flush().await.is_err());
    cpus.flush().await.unwrap();
    assert_eq!(content(&files)["entries"]["u"]["c"], "1");
}

#[tokio::test]
async fn other_policy_refuses_the_state() {
    let files = Arc::new(Files::default());
    let none = restore(&files, None).await.unwrap();
    assert!(!none.is_enabled() && none.effective(&"u".into(), "c").is_empty());
    assert_eq!(
        content(&files),
        json!({"policyName": "none", "defaultCpuSet": "", "checksum": 1_353_318_690_u32})
    );
    let Err(error) = restore(&files, Some(policy())).await else { panic!("accepted") };
    assert_eq!(
        error.to_string(),
        "start cpu manager error: could not restore state from checkpoint: configured policy \"static\" differs from state checkpoint policy \"none\", please drain this node and delete the CPU manager checkpoint file \"/r/cpu_manager_state\" before restarting Kubelet"
    );
}

#[tokio::test]
async fn counts_allocations_and_failures() {
    let metrics = Arc::new(Metrics::new());
    let files = Arc::new(Files::default());
    let cpus = ExclusiveCpus::restore(
        files,
        Path::new("/r"),
        Some(policy()),
        PodLevelManagement::Unmanaged,
        metrics.clone(),
    )
    .await
    .unwrap();
    allocate(&cpus, &pod("u", "2")).unwrap();
    assert_eq!(allocate(&cpus, &pod("v", "2")).unwrap_err().reason, "UnexpectedAdmissionError");
    let text = metrics.encode(Format::Text);
    for line in [
        "kubelet_cpu_manager_pinning_requests_total 2\n",
        "kubelet_cpu_manager_pinning_errors_total 1\n",
        "kubelet_cpu_manager_shared_pool_size_millicores 1000\n",
        "kubelet_cpu_manager_exclusive_cpu_allocation_count 2\n",
        "kubelet_cpu_manager_allocation_per_numa{numa_node=\"0\"} 2\n",
        "kubelet_container_aligned_compute_resources_count{scope=\"container\",boundary=\"uncore_cache\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
