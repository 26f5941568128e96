//! On a containerd that can mount images (2.x).

use std::path::PathBuf;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, scenarios};
use serde_json::json;
use testkit::containerd::Containerd;
use testkit::images::DEMO;

use super::{log_with, pod_with, remove, waiting_message};

scenarios!(an_image_is_a_volume);

// Without an API server upstream asks no handler what it can do, and refuses.
podward_only!(recursive_read_only_reaches_below);

async fn start(agent: Agent) -> Result<Node> {
    let home = std::env::var_os("HOME").map_or("/root".into(), PathBuf::from);
    let binary = std::env::var_os("PODWARD_CONTAINERD_2").map(PathBuf::from);
    let binary = binary.unwrap_or_else(|| home.join(".cache/podward/bin/containerd"));
    let mut node = Node::on(Containerd::start_binary(&binary).await?, agent, &AgentOptions::default())?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    Ok(node)
}

async fn an_image_is_a_volume(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let mounts = json!([{"name": "image", "mountPath": "/image"}]);
    let volume = |reference: &str| json!([{"name": "image", "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}]);
    let script = "ls /image; touch /image/x; echo done";
    node.write("web.json", &pod_with("web", script, mounts.clone(), volume(DEMO)))?;
    let log = log_with(&node, "web", "done").await?;
    ensure!(log.contains("demo") && log.contains("Read-only file system"), "{log}");
    let never =
        json!([{"name": "image", "image": {"reference": "podward.test/none:1", "pullPolicy": "Never"}}]);
    node.write("none.json", &pod_with("none", "echo up", mounts, never))?;
    waiting_message(&node, "none", "ErrImageNeverPull").await?;
    remove(&node, "web").await
}

async fn recursive_read_only_reaches_below(agent: Agent) -> Result<()> {
    let node = start(agent).await?;
    let mounts = json!([{"name": "v", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Enabled"}]);
    let script = "touch /r/x; grep ' /r ' /proc/self/mounts; echo done";
    node.write("web.json", &pod_with("web", script, mounts, json!([{"name": "v", "emptyDir": {}}])))?;
    let log = log_with(&node, "web", "done").await?;
    ensure!(log.contains("Read-only file system") && log.contains(" ro,"), "{log}");
    remove(&node, "web").await
}
