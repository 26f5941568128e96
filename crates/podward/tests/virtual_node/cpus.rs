//! The static CPU policy: exclusive CPUs, the shared pool, rejections, and restarts of the agent.

use decide::cpus::StaticPolicy;
use model::{CpuLocation, CpuPolicyOptions, CpuTopology};
use plugins::pod_resources_v1::pod_resources_lister_client::PodResourcesListerClient;
use plugins::pod_resources_v1::{AllocatableResourcesRequest, GetPodResourcesRequest};
use serde_json::{Value, json};
use testkit::fake_runtime::Exit;
use values::cpu_set::CpuSet;

use crate::node::{VirtualNode, pod};

/// Two CPUs, of which the first is reserved.
fn policy() -> StaticPolicy {
    let location = |core| CpuLocation { numa_node: 0, socket: 0, core, uncore_cache: 0 };
    let topology = CpuTopology {
        cpus: [(0, location(0)), (1, location(1))].into(),
        cpu_count: 2,
        core_count: 2,
        socket_count: 1,
    };
    StaticPolicy::new(topology, CpuPolicyOptions::default(), 100, &CpuSet::new()).unwrap()
}

fn started() -> VirtualNode {
    let mut node = VirtualNode::new();
    node.cpus = Some(policy());
    node.start_agent();
    node
}

fn guaranteed(name: &str, uid: &str) -> Value {
    let mut pod = pod(name, uid, &["main"]);
    let resources = json!({"cpu": "1", "memory": "1Mi"});
    pod["spec"]["containers"][0]["resources"] = json!({"requests": resources, "limits": resources});
    pod
}

async fn until_cpus(node: &VirtualNode, uid: &str, cpus: &str) {
    node.until(&format!("{uid} runs on {cpus}"), |state| {
        let container = state.running_container(uid, "main");
        let resources = container.and_then(|container| container.resources.as_ref());
        resources.is_some_and(|resources| resources.cpuset_cpus == cpus)
    })
    .await;
}

fn quota(node: &VirtualNode, uid: &str) -> i64 {
    node.containers(uid).last().and_then(|own| own.resources.as_ref()).map_or(0, |own| own.cpu_quota)
}

fn state_file(node: &VirtualNode) -> Value {
    serde_json::from_slice(&std::fs::read(node.path("root/cpu_manager_state")).unwrap()).unwrap()
}

#[tokio::test]
async fn exclusive_cpus_leave_the_shared_pool_and_return_to_it() {
    let node = started();
    node.write("shared.json", &pod("shared", "uid-shared", &["main"]));
    until_cpus(&node, "uid-shared", "0-1").await;
    node.write("own.json", &guaranteed("own", "uid-own"));
    until_cpus(&node, "uid-own", "1").await;
    assert_eq!(quota(&node, "uid-own"), -1, "the CPU limits the container");
    until_cpus(&node, "uid-shared", "0").await;
    let state = state_file(&node);
    assert_eq!(state["defaultCpuSet"], "0");
    assert_eq!(state["entries"], json!({"uid-own": {"main": "1"}}));
    node.remove("own.json");
    node.until_gone("uid-own").await;
    until_cpus(&node, "uid-shared", "0-1").await;
    assert_eq!(node.containers("uid-shared").len(), 1, "no restart");
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_without_free_cpus_is_rejected_and_takes_none() {
    let node = started();
    node.write("own.json", &guaranteed("own", "uid-own"));
    until_cpus(&node, "uid-own", "1").await;
    node.write("late.json", &guaranteed("late", "uid-late"));
    let status = node.until_status("uid-late", |status| status.phase.as_deref() == Some("Failed")).await;
    assert_eq!(status.reason.as_deref(), Some("UnexpectedAdmissionError"));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=1, available=0, which is unexpected"
        )
    );
    assert_eq!(state_file(&node)["entries"], json!({"uid-own": {"main": "1"}}));
}

#[tokio::test]
async fn restarted_agent_keeps_the_cpus_of_running_pods() {
    let mut node = started();
    node.write("own.json", &guaranteed("own", "uid-own"));
    until_cpus(&node, "uid-own", "1").await;
    let (id, state) = (node.running("uid-own", "main"), state_file(&node));
    node.restart_agent().await;
    node.until_running("uid-own").await;
    assert_eq!((node.running("uid-own", "main"), state_file(&node)), (id, state));
    let socket = node.path("root/pod-resources/kubelet.sock");
    let mut client = PodResourcesListerClient::new(plugins::dial(&socket).await.unwrap());
    let allocatable = client.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    assert_eq!(allocatable.into_inner().cpu_ids, [1]);
    let ask = GetPodResourcesRequest { pod_name: "own-node".to_owned(), pod_namespace: "default".to_owned() };
    let pod = client.get(ask).await.unwrap().into_inner().pod_resources.unwrap();
    assert_eq!(pod.containers[0].cpu_ids, [1]);
}

#[tokio::test]
async fn crashed_container_gets_its_cpus_again() {
    let node = started();
    node.write("own.json", &guaranteed("own", "uid-own"));
    until_cpus(&node, "uid-own", "1").await;
    let (id, state) = (node.running("uid-own", "main"), state_file(&node));
    node.runtime.exit_container(&id, Exit::code(1));
    node.until("the container runs again on its CPUs", |state| {
        let restarted = state.running_container("uid-own", "main").filter(|own| own.id != id);
        let resources = restarted.and_then(|own| own.resources.as_ref());
        resources.is_some_and(|resources| resources.cpuset_cpus == "1")
    })
    .await;
    assert_eq!(state_file(&node), state);
}

#[tokio::test]
async fn pod_deleted_while_the_agent_is_down_releases_its_cpus() {
    let mut node = started();
    node.write("own.json", &guaranteed("own", "uid-own"));
    until_cpus(&node, "uid-own", "1").await;
    node.kill_agent().await;
    node.remove("own.json");
    node.start_agent();
    node.until_gone("uid-own").await;
    node.write("next.json", &guaranteed("next", "uid-next"));
    until_cpus(&node, "uid-next", "1").await;
    assert_eq!(state_file(&node)["entries"], json!({"uid-next": {"main": "1"}}));
}
