//! The Static memory policy on the machine's NUMA node 0: `cpuset.mems`, the state file, rejections and refusals.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::{eventually, throughout};

use crate::files::{MEMS, read};

scenarios!(
    memory_of_guaranteed_pods_is_booked_and_released,
    memory_survives_restarts_of_the_agent,
    wrong_sum_of_reserved_memory_is_refused_at_start,
    changed_memory_policy_is_refused_at_start,
);

#[test]
fn pinned_memory_survives_a_switch_to_podward_and_back() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "cgroups::pinned_memory_survives_a_switch_to_podward_and_back";
        scenarios::run(Agent::Podward, name, |_| switch_agents());
    }
}

const SYSTEM_RESERVED: u64 = 200 << 20;

/// `reservedMemory` must equal what the node reserves, hard eviction thresholds included.
fn options(topology: &str) -> AgentOptions {
    let overlay = json!({
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": topology,
        "systemReserved": {"memory": SYSTEM_RESERVED.to_string()},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "300Mi"}}],
    });
    AgentOptions { overlay, ..AgentOptions::default() }
}

/// A Guaranteed pod.
fn guaranteed(name: &str, memory: &str) -> Value {
    let resources = json!({"cpu": "100m", "memory": memory});
    let resources = json!({"requests": resources, "limits": resources});
    pod(name, [with(container("main", "sleep forever"), "/resources", resources)])
}

fn state(node: &Node) -> Result<Value> {
    let content = fs::read(node.agent.root().join("memory_manager_state"))?;
    serde_json::from_slice(&content).context("memory_manager_state")
}

fn booked(state: &Value) -> (Value, Value) {
    let node = &state["machineState"]["0"];
    (node["memoryMap"]["memory"]["reserved"].clone(), node["numberOfAssignments"].clone())
}

async fn memory_of_guaranteed_pods_is_booked_and_released(agent: Agent) -> Result<()> {
    let node = Node::start_with(agent, &options("single-numa-node")).await?;
    node.write("own.json", &guaranteed("own", "32Mi"))?;
    let own = node.wait_running("own").await?;
    let id = own.container("main").id.split_once("://").context("no container id")?.1.to_owned();
    let mems = read(&node, &format!("kubepods/pod{}/{id}", own.uid), MEMS)?;
    ensure!(mems == "0", "{mems}");
    let stored = state(&node)?;
    let block = json!([{"numaAffinity": [0], "type": "memory", "size": 32 << 20}]);
    ensure!(stored["entries"][&own.uid]["main"] == block, "{stored}");
    ensure!(booked(&stored) == (json!(32 << 20), json!(1)), "{stored}");
    // More than the node has after its reservations, but no more than its allocatable: the memory of the first pod is missing.
    let allocatable = stored["machineState"]["0"]["memoryMap"]["memory"]["allocatable"].as_u64();
    let large = allocatable.context("no allocatable memory")?;
    node.write("large.json", &guaranteed("large", &large.to_string()))?;
    node.wait_pod("large", "is rejected", |pod| pod.phase == "Failed").await?;
    let status = node.api_pod("large").await?.status.context("no status")?;
    let message = "Pod was rejected: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available, which is unexpected";
    ensure!(status.reason.as_deref() == Some("UnexpectedAdmissionError"), "{status:?}");
    ensure!(status.message.as_deref() == Some(message), "{:?}", status.message);
    node.remove("own.json")?;
    node.wait_gone("own").await?;
    // Upstream releases memory only when it admits the next pod.
    node.write("next.json", &guaranteed("next", "16Mi"))?;
    node.wait_running("next").await?;
    eventually("the first pod's memory is released", Duration::from_secs(60), async || {
        let stored = state(&node)?;
        ensure!(booked(&stored) == (json!(16 << 20), json!(1)), "{stored}");
        Ok(())
    })
    .await
}

async fn memory_survives_restarts_of_the_agent(agent: Agent) -> Result<()> {
    let mut node = Node::start_with(agent, &options("restricted")).await?;
    node.write("own.json", &guaranteed("own", "32Mi"))?;
    let own = node.wait_running("own").await?;
    let stored = state(&node)?;
    node.restart_agent().await?;
    throughout("same container and memory", Duration::from_secs(6), async || {
        let now = node.wait_running("own").await?;
        ensure!(now.container("main") == own.container("main"), "{now:?}");
        ensure!(state(&node)? == stored, "{} is not {stored}", state(&node)?);
        Ok(())
    })
    .await
}

async fn wrong_sum_of_reserved_memory_is_refused_at_start(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.agent.term().await?;
    let mut options = options("none");
    options.overlay["reservedMemory"] = json!([{"numaNode": 0, "limits": {"memory": "200Mi"}}]);
    node.configure(agent, &options)?;
    node.agent.start()?;
    node.agent.wait_log("determined by Node Allocatable feature", Duration::from_secs(60)).await
}

async fn changed_memory_policy_is_refused_at_start(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    eventually("state of the None policy", Duration::from_secs(60), async || {
        let state = state(&node)?;
        ensure!(state["checksum"] == json!(4_236_770_233_u32), "{state}");
        Ok(())
    })
    .await?;
    node.agent.term().await?;
    node.configure(agent, &options("none"))?;
    node.agent.start()?;
    // Upstream's log escapes the quotation marks around the policies.
    node.agent.wait_log("differs from state checkpoint policy", Duration::from_secs(60)).await
}

async fn switch_agents() -> Result<()> {
    let mut node = Node::start_with(Agent::Upstream, &options("single-numa-node")).await?;
    node.write("own.json", &guaranteed("own", "32Mi"))?;
    node.wait_running("own").await?;
    let stored = state(&node)?;
    for agent in [Agent::Podward, Agent::Upstream] {
        let containers = node.cri().containers().await?;
        node.agent.term().await?;
        node.agent.become_kind(agent)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        throughout("same containers and memory after the switch", Duration::from_secs(6), async || {
            let now = node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            ensure!(state(&node)? == stored, "{} is not {stored}", state(&node)?);
            Ok(())
        })
        .await?;
    }
    Ok(())
}
