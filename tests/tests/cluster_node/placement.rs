//! Taints, cordon and drain.

use anyhow::{Result, ensure};
use scenarios::{Agent, ClusterNode, container, scenarios, sleeper, with};
use serde_json::json;

scenarios!(a_taint_with_no_execute_drives_pods_away, cordon_and_drain);

async fn a_taint_with_no_execute_drives_pods_away(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let tolerant = json!([{"key": "gone", "operator": "Exists"}]);
    node.apply(&sleeper("weak")).await?;
    node.apply(&with(sleeper("strong"), "/spec/tolerations", tolerant)).await?;
    node.wait_running("weak").await?;
    let strong = node.wait_running("strong").await?;
    node.kubectl(&["taint", "node", &node.name, "gone=away:NoExecute"]).await?;
    node.wait_absent(&["pod", "weak"]).await?;
    ensure!(node.running("weak").await?.is_empty(), "the object went before the containers");
    ensure!(node.pod("strong").await?.containers == strong.containers, "a tolerant pod was touched");
    node.end()
}

async fn cordon_and_drain(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container("main", "sleep forever")]},
    });
    node.apply(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }))
    .await?;
    node.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    node.kubectl(&["cordon", &node.name]).await?;
    // A cordon is the administrator's: an agent that starts again leaves it alone.
    node.restart_agent_unseen().await?;
    ensure!(node.node().await?["spec"]["unschedulable"] == true, "the cordon is gone");
    node.kubectl(&["drain", &node.name, "--ignore-daemonsets", "--timeout=90s"]).await?;
    node.wait("no pod is left", async || {
        let containers = node.cri().containers().await?;
        ensure!(containers.iter().all(|container| !container.running()), "{containers:?}");
        Ok(())
    })
    .await?;
    node.kubectl(&["uncordon", &node.name]).await?;
    node.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    node.end()
}
