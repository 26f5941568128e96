//! Resource limits are applied in the kernel, and exceeding them is reported.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, with};
use serde_json::json;

scenarios!(limits_are_set_on_pod_and_container, oom_kill_is_reported, metrics_and_health_are_served);

/// The value of a cgroup file: controller and name on v1, name on v2.
fn read(node: &Node, group: &str, v1: (&str, &str), v2: &str) -> Result<String> {
    let root = node.runtime.instance().cgroup_root();
    let folder = PathBuf::from("/sys/fs/cgroup");
    let old = folder.join(v1.0).join(root.trim_start_matches('/')).join(group).join(v1.1);
    let new = folder.join(root.trim_start_matches('/')).join(group).join(v2);
    let path = if folder.join(v1.0).exists() { old } else { new };
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(text.trim().to_owned())
}

async fn limits_are_set_on_pod_and_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}});
    let manifest = pod("web", [with(container("main", "sleep forever"), "/resources", resources)]);
    node.write("web.json", &manifest)?;
    let pod = node.wait_running("web").await?;
    let id = node.only_running("web").await?.id;
    let group = format!("kubepods/burstable/pod{}", pod.uid);
    for group in [group.clone(), format!("{group}/{id}")] {
        let memory = read(&node, &group, ("memory", "memory.limit_in_bytes"), "memory.max")?;
        ensure!(memory == "67108864", "{group}: memory {memory}");
        if PathBuf::from("/sys/fs/cgroup/cpu").exists() {
            let shares = read(&node, &group, ("cpu", "cpu.shares"), "")?;
            let quota = read(&node, &group, ("cpu", "cpu.cfs_quota_us"), "")?;
            ensure!(shares == "102", "{group}: shares {shares}");
            ensure!(quota == "50000", "{group}: quota {quota}");
        }
    }
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    testkit::poll::eventually("pod cgroup removed", std::time::Duration::from_secs(30), async || {
        let left = read(&node, &group, ("memory", "memory.limit_in_bytes"), "memory.max");
        ensure!(left.is_err(), "{group} is still there");
        Ok(())
    })
    .await
}

async fn oom_kill_is_reported(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let greedy = with(
        container("main", "fill 200 -- sleep forever"),
        "/resources",
        json!({"limits": {"memory": "32Mi"}}),
    );
    node.write("web.json", &with(pod("web", [greedy]), "/spec/restartPolicy", json!("Never")))?;
    let pod = node.wait_pod("web", "fails", |pod| pod.phase == "Failed").await?;
    ensure!(pod.container("main").exit_code == Some(137), "{pod:?}");
    ensure!(pod.container("main").reason == "OOMKilled", "{pod:?}");
    Ok(())
}

async fn metrics_and_health_are_served(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    ensure!(node.agent.page("/healthz").await? == "ok");
    let health = testkit::http::get(node.agent.ports().healthz, "/healthz").await?;
    ensure!(health.status == 200 && health.body == b"ok");
    for (path, status, text) in [
        ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
        ("/healthz?verbose&exclude=ping", 200, "[+]ping excluded: ok\nhealthz check passed\n"),
        ("/healthz/ping", 200, "ok"),
        ("/healthz/syncloop", 404, "404 page not found\n"),
    ] {
        let answer = testkit::http::get(node.agent.ports().healthz, path).await?;
        let found = (answer.status, String::from_utf8_lossy(&answer.body).into_owned());
        ensure!(found == (status, text.to_owned()), "{path}: {found:?}");
    }
    node.write("web.json", &pod("web", [container("main", "sleep forever")]))?;
    node.wait_running("web").await?;
    let metrics = node.agent.page("/metrics").await?;
    for name in
        ["kubelet_running_pods", "kubelet_pod_start_duration_seconds", "kubelet_pleg_relist_duration_seconds"]
    {
        ensure!(metrics.contains(name), "{name} is missing");
    }
    Ok(())
}
