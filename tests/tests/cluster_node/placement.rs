//! Taints, cordon and drain.

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, container, scenarios, sleeper, with};
use serde_json::json;

scenarios!(
    no_execute_taint_evicts_pods,
    cordon_survives_restart_and_drain_evicts_pods,
    rejects_pod_that_requires_undeclared_node_feature,
);

async fn no_execute_taint_evicts_pods(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    let tolerant = json!([{"key": "gone", "operator": "Exists"}]);
    node.apply(&sleeper("weak")).await?;
    node.apply(&with(sleeper("strong"), "/spec/tolerations", tolerant)).await?;
    node.wait_running("weak").await?;
    let strong = node.wait_running("strong").await?;
    node.kubectl(&["taint", "node", &node.name, "gone=away:NoExecute"]).await?;
    node.wait_absent(&["pod", "weak"]).await?;
    ensure!(node.running("weak").await?.is_empty(), "the object went before the containers");
    ensure!(node.pod("strong").await?.containers == strong.containers, "a tolerant pod was touched");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn rejects_pod_that_requires_undeclared_node_feature(agent: Agent) -> Result<()> {
    const FEATURE: &str = "RestartAllContainersOnContainerExits";
    let overlay = json!({"featureGates": {FEATURE: false}});
    let options = AgentOptions { overlay, ..AgentOptions::default() };
    let node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let declared = node.node().await?["status"]["declaredFeatures"].clone();
    ensure!(
        declared.as_array().is_some_and(|all| !all.is_empty() && !all.contains(&json!(FEATURE))),
        "{declared}"
    );
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
    let web = with(sleeper("web"), "/spec/containers/0/restartPolicy", json!("Never"));
    let web = with(web, "/spec/containers/0/restartPolicyRules", rules);
    // The scheduler would not place it here, so `nodeName` is set.
    node.apply(&with(web, "/spec/nodeName", json!(node.name))).await?;
    node.wait_pod("web", "is rejected", |pod| pod.phase == "Failed").await?;
    let status = node.get(&["pod", "web"]).await?["status"].clone();
    ensure!(status["reason"] == "PodFeatureUnsupported", "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.ends_with(&format!("node features that are not available: {FEATURE}")), "{message}");
    ensure!(node.running("web").await?.is_empty(), "it runs");
    node.end()
}

async fn cordon_survives_restart_and_drain_evicts_pods(agent: Agent) -> Result<()> {
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
    // The cordon belongs to the administrator: a restarted agent does not change it.
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
