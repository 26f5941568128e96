//! The Node object and its lease.

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, condition, scenarios};
use serde_json::{Value, json};

scenarios!(node_registers_and_becomes_ready, node_lease_is_renewed, agent_restart_keeps_node_conditions);

async fn node_registers_and_becomes_ready(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let object = node.wait_field(&["node", &node.name], "/spec/podCIDR", &pod_range(&node).await?).await?;
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        ensure!(condition(&object, kind) == "False", "{kind}: {}", object["status"]["conditions"]);
    }
    for (label, value) in [("hostname", node.name.as_str()), ("os", "linux"), ("arch", "amd64")] {
        let label = format!("kubernetes.io/{label}");
        ensure!(object["metadata"]["labels"][&label] == value, "{}", object["metadata"]["labels"]);
    }
    for resource in ["cpu", "memory", "pods", "ephemeral-storage"] {
        for part in ["capacity", "allocatable"] {
            let amount = object["status"][part][resource].as_str().unwrap_or_default();
            ensure!(!amount.is_empty() && amount != "0", "{part} of {resource}: {}", object["status"][part]);
        }
    }
    let info = &object["status"]["nodeInfo"];
    ensure!(
        info["containerRuntimeVersion"].as_str().is_some_and(|text| text.starts_with("containerd://")),
        "{info}"
    );
    ensure!(info["kubeletVersion"].as_str().is_some_and(|text| text.starts_with("v1.")), "{info}");
    let kinds: Vec<&str> = object["status"]["addresses"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|address| address["type"].as_str())
        .collect();
    ensure!(kinds.contains(&"InternalIP") && kinds.contains(&"Hostname"), "{kinds:?}");
    let port = &object["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    ensure!(*port == json!(node.agent.ports().api), "{port}");
    node.end()
}

/// The pod CIDR that the controllers assigned.
async fn pod_range(node: &ClusterNode) -> Result<Value> {
    node.wait("pod CIDR", async || node.node().await?.pointer("/spec/podCIDR").cloned().context("none yet"))
        .await
}

async fn node_lease_is_renewed(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let lease = async || node.get(&["lease", &node.name, "--namespace", "kube-node-lease"]).await;
    let first = node.wait("there is a lease", &lease).await?;
    ensure!(first["spec"]["holderIdentity"] == node.name.as_str(), "{first}");
    ensure!(first["spec"]["leaseDurationSeconds"] == 40, "{first}");
    ensure!(first["metadata"]["ownerReferences"][0]["name"] == node.name.as_str(), "{first}");
    node.wait("the lease is renewed", async || {
        let now = lease().await?;
        ensure!(now["spec"]["renewTime"] != first["spec"]["renewTime"], "not renewed");
        Ok(())
    })
    .await?;
    node.end()
}

async fn agent_restart_keeps_node_conditions(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let since = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().map(|one| one["lastTransitionTime"].to_string()).collect::<Vec<_>>()
    };
    let before = node.node().await?;
    node.restart_agent().await?;
    node.wait("the agent serves again", async || {
        let patches = node.requests()?;
        ensure!(patches.iter().filter(|request| request.resource == "leases").count() > 2, "no lease yet");
        Ok(())
    })
    .await?;
    let after = node.node().await?;
    ensure!(since(&after) == since(&before), "{} became {}", before["status"], after["status"]);
    ensure!(after["metadata"]["uid"] == before["metadata"]["uid"], "the node was created again");
    node.end()
}
