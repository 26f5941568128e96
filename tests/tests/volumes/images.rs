//! Image volumes, on containerd 2.x.

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, podward_only, scenarios};
use serde_json::json;
use testkit::images::DEMO;

use super::{log_with, pod_with, remove, waiting_message};

scenarios!(mounts_image_as_volume);

// Without an API server upstream does not query the features of the runtime handlers, and rejects the pod.
podward_only!(recursive_read_only_applies_to_submounts);

async fn mounts_image_as_volume(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
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

async fn recursive_read_only_applies_to_submounts(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    let mounts = json!([{"name": "v", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Enabled"}]);
    let script = "touch /r/x; grep ' /r ' /proc/self/mounts; echo done";
    node.write("web.json", &pod_with("web", script, mounts, json!([{"name": "v", "emptyDir": {}}])))?;
    let log = log_with(&node, "web", "done").await?;
    ensure!(log.contains("Read-only file system") && log.contains(" ro,"), "{log}");
    remove(&node, "web").await
}
