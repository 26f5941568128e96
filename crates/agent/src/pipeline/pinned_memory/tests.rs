use model::{NumaNode, PodLevelManagement, PodSource};
use serde_json::{Value, json};
use testkit::builders;

use super::*;
use crate::metrics::Format;
use crate::test_checkpoints::Files;

/// Two NUMA nodes with 1000 bytes each, of which the first reserves 100.
fn policy() -> MemoryPolicy {
    let nodes = [0, 1].map(|id| NumaNode { id, memory: 1000, ..NumaNode::default() });
    let reserved = [(0, [("memory".to_owned(), 100)].into())].into();
    MemoryPolicy::new(&nodes, &reserved, &[("memory".to_owned(), 100)].into()).unwrap()
}

fn pod(uid: &str, memory: &str) -> Pod {
    let resources = json!({"cpu": "1", "memory": memory});
    let spec =
        json!({"containers": [{"name": "c", "resources": {"requests": resources, "limits": resources}}]});
    builders::pod(uid, PodSource::Api, spec)
}

fn allocate(memory: &PinnedMemory, pod: &Pod) -> Result<(), Rejection> {
    let anywhere = TopologyHint { nodes: None, preferred: false };
    memory.allocate(pod, pod.containers().next().unwrap(), anywhere)
}

async fn restore(
    files: &Arc<Files>,
    policy: Option<MemoryPolicy>,
) -> Result<PinnedMemory, RestoreMemoryError> {
    let (metrics, management) = (Arc::new(Metrics::new()), PodLevelManagement::Unmanaged);
    PinnedMemory::restore(files.clone(), Path::new("/r"), policy, management, metrics).await
}

fn content(files: &Files) -> Value {
    serde_json::from_slice(&files.read(MEMORY_STATE).unwrap().1).unwrap()
}

#[tokio::test]
async fn memory_survives_a_restart_until_it_is_released() {
    let files = Arc::new(Files::default());
    let memory = restore(&files, Some(policy())).await.unwrap();
    let owner = pod("u", "950");
    allocate(&memory, &owner).unwrap();
    memory.flush().await.unwrap();
    let again = restore(&files, Some(policy())).await.unwrap();
    assert_eq!(again.nodes(&owner.uid, "c"), Some(NumaMask::of([1])));
    assert_eq!(again.nodes(&"other".into(), "c"), None);
    assert_eq!(again.allocatable().iter().map(|block| block.size).collect::<Vec<_>>(), [900, 1000]);
    assert_eq!(content(&files)["machineState"]["1"]["memoryMap"]["memory"]["free"], 50);
    again.retain(|_, _| false);
    again.flush().await.unwrap();
    assert_eq!(content(&files).get("entries"), None);
    assert_eq!(content(&files)["machineState"]["1"]["numberOfAssignments"], 0);
}

#[tokio::test]
async fn other_memory_policy_refuses_the_state() {
    let files = Arc::new(Files::default());
    let none = restore(&files, None).await.unwrap();
    assert!(!none.is_enabled());
    let empty = json!({"policyName": "None", "machineState": {}, "checksum": 4_236_770_233_u32});
    assert_eq!(content(&files), empty);
    let Err(error) = restore(&files, Some(policy())).await else { panic!("accepted") };
    assert_eq!(
        error.to_string(),
        "start memory manager error: could not restore state from checkpoint: [memorymanager] configured policy \"Static\" differs from state checkpoint policy \"None\", please drain this node and delete the memory manager checkpoint file \"/r/memory_manager_state\" before restarting Kubelet"
    );
}

#[tokio::test]
async fn counts_memory_requests_and_failures() {
    let metrics = Arc::new(Metrics::new());
    let files = Arc::new(Files::default());
    let memory = PinnedMemory::restore(
        files,
        Path::new("/r"),
        Some(policy()),
        PodLevelManagement::Unmanaged,
        metrics.clone(),
    )
    .await
    .unwrap();
    allocate(&memory, &pod("u", "900")).unwrap();
    let rejection = allocate(&memory, &pod("v", "2000")).unwrap_err();
    assert_eq!(rejection.reason, "UnexpectedAdmissionError");
    assert_eq!(
        rejection.message,
        "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available, which is unexpected"
    );
    let text = metrics.encode(Format::Text);
    for line in [
        "kubelet_memory_manager_pinning_requests_total 2\n",
        "kubelet_memory_manager_pinning_errors_total 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
