//! Termination and deletion of pods.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, ClusterNode, pod, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;
use testkit::poll::eventually;

scenarios!(
    graceful_delete_waits_for_the_container,
    forced_delete_removes_pod_immediately,
    finalizer_keeps_the_pod_object,
    eviction_api_terminates_pod,
    pod_deleted_during_agent_downtime_is_removed,
    pod_deleted_during_init_containers_is_removed,
);

/// A pod that takes two seconds to stop and exits with 7.
fn slow_to_stop(name: &str) -> Value {
    let script = "trap 'sleep 2; exit 7' TERM; while :; do sleep 0.1; done";
    let main = json!({"name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", script]});
    with(pod(name, [main]), "/spec/terminationGracePeriodSeconds", json!(20))
}

async fn nothing_runs(node: &ClusterNode, pod: &str) -> Result<()> {
    eventually("no container of the pod runs", Duration::from_secs(30), async || {
        ensure!(node.running(pod).await?.is_empty(), "containers run");
        let sandboxes = node.cri().sandboxes_of(pod).await?;
        ensure!(sandboxes.iter().all(|sandbox| !sandbox.ready), "{sandboxes:?}");
        Ok(())
    })
    .await
}

async fn graceful_delete_waits_for_the_container(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&slow_to_stop("web")).await?;
    node.wait_running("web").await?;
    let start = Instant::now();
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    // The agent is restarted during the termination.
    node.restart_agent().await?;
    node.wait_absent(&["pod", "web"]).await?;
    let took = start.elapsed();
    ensure!(took >= Duration::from_secs(2), "removed after {took:?}");
    ensure!(took < Duration::from_secs(19), "removed after {took:?}");
    ensure!(node.running("web").await?.is_empty(), "the object went before the containers");
    let writes = node.status_writes()?;
    let codes = writes.iter().filter(|write| write.body.to_string().contains("\"exitCode\":7")).count();
    ensure!(codes > 0, "the exit code never reached the API server: {writes:?}");
    let deletes = node.requests()?.into_iter().filter(|one| one.verb == "delete" && one.name == "web");
    let good = deletes.filter(|one| one.code == 200).count();
    ensure!(good == 1, "{good} final deletes");
    nothing_runs(&node, "web").await?;
    node.end()
}

async fn forced_delete_removes_pod_immediately(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&slow_to_stop("web")).await?;
    let old = node.wait_running("web").await?;
    node.kubectl(&["delete", "pod", "web", "--force", "--grace-period=0"]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    nothing_runs(&node, "web").await?;
    // Another pod can use the name at once.
    node.apply(&sleeper("web")).await?;
    let new = node.wait_running("web").await?;
    ensure!(new.uid != old.uid && new.container("main").restarts == 0, "{new:?}");
    node.restart_agent_unseen().await?;
    node.end()
}

async fn finalizer_keeps_the_pod_object(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&with(sleeper("web"), "/metadata/finalizers", json!(["podward.test/hold"]))).await?;
    node.wait_running("web").await?;
    node.kubectl(&["delete", "pod", "web", "--wait=false"]).await?;
    node.wait_pod("web", "has ended", |pod| pod.phase == "Succeeded" || pod.phase == "Failed").await?;
    nothing_runs(&node, "web").await?;
    eventually("the runtime has removed the pod", Duration::from_secs(120), async || {
        let sandboxes = node.cri().sandboxes_of("web").await?;
        ensure!(sandboxes.is_empty(), "{sandboxes:?}");
        Ok(())
    })
    .await?;
    node.restart_agent_unseen().await?;
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    node.kubectl(&["patch", "pod", "web", "--type=merge", "--patch", patch]).await?;
    node.wait_absent(&["pod", "web"]).await?;
    node.end()
}

async fn eviction_api_terminates_pod(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&with(sleeper("web"), "/metadata/labels", json!({"app": "web"}))).await?;
    node.apply(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }))
    .await?;
    node.wait_running("web").await?;
    node.wait_field(&["pdb", "web"], "/status/currentHealthy", &json!(1)).await?;
    node.restart_agent_unseen().await?;
    let path = format!("/api/v1/namespaces/{}/pods/web/eviction", node.namespace);
    let body =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}).to_string();
    let evict = async || node.kubectl_with_input(&["create", "--raw", &path, "-f", "-"], &body).await;
    let refused = evict().await;
    ensure!(format!("{refused:?}").contains("disruption budget"), "{refused:?}");
    node.kubectl(&["delete", "pdb", "web"]).await?;
    evict().await?;
    node.wait_absent(&["pod", "web"]).await?;
    nothing_runs(&node, "web").await?;
    node.end()
}

async fn pod_deleted_during_agent_downtime_is_removed(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    for name in ["graceful", "forced", "stays"] {
        node.apply(&sleeper(name)).await?;
    }
    for name in ["graceful", "forced", "stays"] {
        node.wait_running(name).await?;
    }
    let kept = node.running("stays").await?;
    node.agent.kill9()?;
    node.kubectl(&["delete", "pod", "graceful", "--wait=false"]).await?;
    node.kubectl(&["delete", "pod", "forced", "--force", "--grace-period=0"]).await?;
    node.apply(&sleeper("added")).await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_running("added").await?;
    node.wait_absent(&["pod", "graceful"]).await?;
    for name in ["graceful", "forced"] {
        nothing_runs(&node, name).await?;
    }
    ensure!(node.running("stays").await? == kept, "a bystander was touched");
    node.end()
}

/// A pod whose main container waits for an init container that never finishes.
fn held_up(name: &str, init: &Value) -> Value {
    with(sleeper(name), "/spec/initContainers", json!([init]))
}

async fn pod_deleted_during_init_containers_is_removed(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let sleeps = json!({"name": "init", "image": BUSYBOX, "command": ["/bin/sleep", "1000"]});
    let crashes = json!({"name": "init", "image": BUSYBOX, "command": ["/bin/false"]});
    let missing = json!({"name": "init", "image": "localhost/missing:1", "imagePullPolicy": "Never"});
    for (name, init) in [("sleeps", sleeps), ("crashes", crashes), ("missing", missing)] {
        let held = with(held_up(name, &init), "/spec/terminationGracePeriodSeconds", json!(1));
        node.apply(&held).await?;
    }
    node.wait("the init container runs", async || {
        let object = node.get(&["pod", "sleeps"]).await?;
        let running = object.pointer("/status/initContainerStatuses/0/state/running");
        ensure!(running.is_some(), "{object}");
        Ok(())
    })
    .await?;
    let waits = "/status/initContainerStatuses/0/state/waiting/reason";
    node.wait_field(&["pod", "crashes"], waits, &json!("CrashLoopBackOff")).await?;
    node.wait_field(&["pod", "missing"], waits, &json!("ErrImageNeverPull")).await?;
    for name in ["sleeps", "crashes", "missing"] {
        node.kubectl(&["delete", "pod", name, "--wait=false"]).await?;
    }
    for name in ["sleeps", "crashes", "missing"] {
        node.wait_absent(&["pod", name]).await?;
        nothing_runs(&node, name).await?;
    }
    node.end()
}
