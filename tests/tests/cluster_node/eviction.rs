//! Eviction of pods that exceed a limit of their local storage.

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, ClusterNode, Joining, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::images::BUSYBOX;

scenarios!(evicts_pods_over_local_storage_limits);

/// A container that writes some MiB to a path and then waits.
fn writer(name: &str, place: &str, limit: &Value) -> Value {
    let script = format!(
        "dd if=/dev/zero bs=1048576 count=8 2>/dev/null | tr '\\0' 'x' | fold -w 100 > {place}; sleep 100000"
    );
    json!({
        "name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", script],
        "resources": {"limits": limit},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    })
}

fn idle(name: &str, limit: &str) -> Value {
    json!({
        "name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", "sleep 100000"],
        "resources": {"limits": {"ephemeral-storage": limit}},
    })
}

fn with_volume(pod: Value, empty_dir: &Value) -> Value {
    with(pod, "/spec/volumes", json!([{"name": "v", "emptyDir": empty_dir}]))
}

async fn evicts_pods_over_local_storage_limits(agent: Agent) -> Result<()> {
    // Interval of volume measurements.
    let options = AgentOptions { overlay: json!({"volumeStatsAggPeriod": "5s"}), ..AgentOptions::default() };
    let mut node = ClusterNode::start_with(agent, Joining::WithCertificate, &options).await?;
    let storage = |limit: &str| json!({"ephemeral-storage": limit});
    let volume =
        with_volume(pod("volume", [writer("main", "/v/f", &json!({}))]), &json!({"sizeLimit": "1Mi"}));
    let whole = with_volume(pod("whole", [writer("main", "/v/f", &storage("1Mi"))]), &json!({}));
    let logs = [writer("loud", "/proc/self/fd/1", &storage("1Mi")), idle("quiet", "64Mi")];
    let logs = with_volume(pod("logs", logs), &json!({}));
    let fits =
        with_volume(pod("fits", [writer("main", "/v/f", &storage("64Mi"))]), &json!({"sizeLimit": "32Mi"}));
    for pod in [&fits, &volume, &whole, &logs] {
        node.apply(pod).await?;
    }
    for (name, message) in [
        ("volume", "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "),
        ("whole", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        ("logs", "Container loud exceeded its local ephemeral storage limit \"1Mi\". "),
    ] {
        node.wait_pod(name, "is evicted", |pod| pod.phase == "Failed").await?;
        let status = node.get(&["pod", name]).await?["status"].clone();
        ensure!(status["reason"] == "Evicted" && status["message"] == message, "{status}");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().all(|own| own["type"] != "DisruptionTarget"), "{status}");
        ensure!(node.running(name).await?.is_empty(), "{name} runs");
        let selector = format!("--field-selector=reason=Evicted,involvedObject.name={name}");
        node.wait("the event", async || {
            let events = node.get(&["events", &selector]).await?;
            ensure!(events["items"][0]["message"] == message, "{events}");
            Ok(())
        })
        .await?;
    }
    node.wait_running("fits").await?;
    node.restart_agent_unseen().await?;
    node.end()
}
