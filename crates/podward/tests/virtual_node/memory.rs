//! The Static memory policy on a machine with two NUMA nodes.

use decide::memory::MemoryPolicy;
use decide::topology::{Alignment, AlignmentOptions, AlignmentPolicy, AlignmentScope};
use model::NumaNode;
use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use plugins::pod_resources_v1::{AllocatableResourcesRequest, GetPodResourcesRequest};
use serde_json::{Value, json};

use crate::node::{VirtualNode, pod};

const MEBIBYTE: u64 = 1 << 20;

/// The first node reserves 100 MiB of its 1 GiB.
fn started() -> VirtualNode {
    let nodes = [0, 1].map(|id| NumaNode { id, memory: 1024 * MEBIBYTE, ..NumaNode::default() });
    let memory = || "memory".to_owned();
    let reserved = [(0, [(memory(), 100 * MEBIBYTE)].into())].into();
    let policy = MemoryPolicy::new(&nodes, &reserved, &[(memory(), 100 << 20)].into()).unwrap();
    let alignment = Alignment::new(
        AlignmentPolicy::SingleNumaNode,
        AlignmentScope::Container,
        AlignmentOptions::default(),
        &nodes,
    );
    let mut node = VirtualNode::new();
    node.memory = Some(policy);
    node.alignment = Some(alignment.unwrap());
    node.start_agent();
    node
}

fn guaranteed(name: &str, uid: &str, memory: &str) -> Value {
    let mut pod = pod(name, uid, &["main"]);
    let resources = json!({"cpu": "100m", "memory": memory});
    pod["spec"]["containers"][0]["resources"] = json!({"requests": resources, "limits": resources});
    pod
}

async fn until_nodes(node: &VirtualNode, uid: &str, nodes: &str) {
    node.until(&format!("{uid} has memory of NUMA nodes {nodes:?}"), |state| {
        let container = state.running_container(uid, "main");
        let resources = container.and_then(|container| container.resources.as_ref());
        resources.is_some_and(|resources| resources.cpuset_mems == nodes)
    })
    .await;
}

fn state_file(node: &VirtualNode) -> Value {
    serde_json::from_slice(&std::fs::read(node.path("root/memory_manager_state")).unwrap()).unwrap()
}

#[tokio::test]
async fn guaranteed_pods_get_memory_of_the_numa_node_with_enough_of_it() {
    let mut node = started();
    node.write("first.json", &guaranteed("first", "uid-first", "512Mi"));
    until_nodes(&node, "uid-first", "0").await;
    node.write("second.json", &guaranteed("second", "uid-second", "450Mi"));
    until_nodes(&node, "uid-second", "1").await;
    node.write("shared.json", &pod("shared", "uid-shared", &["main"]));
    until_nodes(&node, "uid-shared", "").await;
    let (id, state) = (node.running("uid-first", "main"), state_file(&node));
    assert_eq!(state["machineState"]["1"]["memoryMap"]["memory"]["reserved"], 450 * MEBIBYTE);
    node.restart_agent().await;
    node.until_running("uid-first").await;
    assert_eq!((node.running("uid-first", "main"), state_file(&node)), (id, state));
    node.remove("second.json");
    node.until_gone("uid-second").await;
    node.write("third.json", &guaranteed("third", "uid-third", "500Mi"));
    until_nodes(&node, "uid-third", "1").await;
    assert_eq!(state_file(&node)["entries"].as_object().unwrap().len(), 2);
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_that_fits_on_no_numa_node_is_rejected_and_takes_no_memory() {
    let node = started();
    node.write("first.json", &guaranteed("first", "uid-first", "600Mi"));
    until_nodes(&node, "uid-first", "0").await;
    // Both nodes would have enough together, but the first one is in use.
    node.write("late.json", &guaranteed("late", "uid-late", "1100Mi"));
    let status = node.until_status("uid-late", |status| status.phase.as_deref() == Some("Failed")).await;
    assert_eq!(status.reason.as_deref(), Some("UnexpectedAdmissionError"));
    assert_eq!(state_file(&node)["entries"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn pod_resources_show_memory_of_containers_and_of_the_node() {
    let node = started();
    node.write("own.json", &guaranteed("own", "uid-own", "512Mi"));
    until_nodes(&node, "uid-own", "0").await;
    let socket = node.path("root/pod-resources/kubelet.sock");
    let mut client = PodResourcesListerClient::new(plugins::dial(&socket).await.unwrap());
    let allocatable = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    let sizes: Vec<u64> = allocatable.into_inner().memory.iter().map(|memory| memory.size).collect();
    assert_eq!(sizes, [924 * MEBIBYTE, 1024 * MEBIBYTE]);
    let ask = GetPodResourcesRequest { pod_name: "own-node".to_owned(), pod_namespace: "default".to_owned() };
    let pod = client.get(ask).await.unwrap().into_inner().pod_resources.unwrap();
    let memory = &pod.containers[0].memory[0];
    assert_eq!((memory.memory_type.as_str(), memory.size), ("memory", 512 * MEBIBYTE));
    assert_eq!(memory.topology.as_ref().unwrap().nodes[0].id, 0);
}
