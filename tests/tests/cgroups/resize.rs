//! In-place resize of running pods.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, PodView, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

use crate::files::{MEMORY, QUOTA, SHARES, read, wait_limit};

scenarios!(
    resize_changes_limits_of_running_container,
    resize_changes_running_init_container,
    resize_policy_restarts_the_changed_container,
    resize_does_not_lower_memory_below_usage,
    restarted_agent_completes_resize,
    removed_pods_leave_the_checkpoint_of_allocations,
);

const UID: &str = "5ca1ab1e-0000-4000-8000-000000000001";

fn sized(cpu: &str, memory: &str) -> Value {
    let both = json!({"cpu": cpu, "memory": memory});
    json!({"requests": both, "limits": both})
}

fn web(containers: impl IntoIterator<Item = Value>) -> Value {
    with(pod("web", containers), "/metadata/uid", json!(UID))
}

fn one(cpu: &str, memory: &str) -> Value {
    web([with(container("main", "sleep forever"), "/resources", sized(cpu, memory))])
}

fn pod_group() -> String {
    format!("kubepods/pod{UID}")
}

fn container_group(pod: &PodView, name: &str) -> String {
    let id = pod.container(name).id.clone();
    format!("{}/{}", pod_group(), id.rsplit('/').next().unwrap_or_default())
}

/// Waits until pod and container have these limits: quota in hundredths of a CPU, memory in MiB.
async fn wait_sizes(node: &Node, groups: [&str; 2], percent: u64, mebibytes: u64) -> Result<()> {
    let quota = (percent * 1000).to_string();
    let memory = (mebibytes << 20).to_string();
    for group in groups {
        wait_limit(node, group, QUOTA, &quota, &format!("{quota} 100000")).await?;
        wait_limit(node, group, MEMORY, &memory, &memory).await?;
    }
    Ok(())
}

async fn resize_changes_limits_of_running_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &one("100m", "64Mi"))?;
    let before = node.wait_running("web").await?;
    let (pod, main) = (pod_group(), container_group(&before, "main"));
    wait_sizes(&node, [&pod, &main], 10, 64).await?;
    for (cpu, percent, memory, mebibytes) in [("300m", 30, "128Mi", 128), ("200m", 20, "96Mi", 96)] {
        node.write("web.json", &one(cpu, memory))?;
        wait_sizes(&node, [&pod, &main], percent, mebibytes).await?;
    }
    wait_limit(&node, &pod, SHARES, "204", "8").await?;
    // The status is updated, and the container was not restarted.
    eventually("status", Duration::from_secs(30), async || {
        let api = node.api_pod("web").await?;
        let status = api.status.unwrap_or_default();
        let container = status.container_statuses.unwrap_or_default().pop().unwrap_or_default();
        let memory =
            container.resources.and_then(|own| own.limits).and_then(|list| list.get("memory").cloned());
        ensure!(memory.as_ref().is_some_and(|memory| memory.0 == "96Mi"), "memory {memory:?}");
        let resizing =
            status.conditions.unwrap_or_default().iter().any(|one| one.type_.starts_with("PodResize"));
        ensure!(!resizing, "still resizing");
        Ok(())
    })
    .await?;
    let after = node.pod("web").await?;
    ensure!(after.container("main") == before.container("main"), "{before:?}\n{after:?}");
    Ok(())
}

async fn resize_changes_running_init_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = |cpu: &str, memory: &str| {
        let init = with(container("init", "sleep forever"), "/resources", sized(cpu, memory));
        with(one("100m", "64Mi"), "/spec/initContainers", json!([init]))
    };
    node.write("web.json", &manifest("200m", "96Mi"))?;
    eventually("the init container runs", Duration::from_secs(60), async || {
        ensure!(node.running("web").await?.len() == 1, "it does not");
        Ok(())
    })
    .await?;
    let before = node.only_running("web").await?;
    let (pod, init) = (pod_group(), format!("{}/{}", pod_group(), before.id));
    wait_sizes(&node, [&pod, &init], 20, 96).await?;
    node.write("web.json", &manifest("300m", "128Mi"))?;
    wait_sizes(&node, [&pod, &init], 30, 128).await?;
    ensure!(node.only_running("web").await?.id == before.id, "the init container was restarted");
    Ok(())
}

async fn resize_policy_restarts_the_changed_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = |memory: &str| {
        let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        let main = with(container("main", "sleep forever"), "/resources", sized("100m", memory));
        let side = with(container("side", "sleep forever"), "/resources", sized("100m", "32Mi"));
        with(
            web([with(main, "/resizePolicy", policy), side]),
            "/spec/terminationGracePeriodSeconds",
            json!(1),
        )
    };
    node.write("web.json", &manifest("64Mi"))?;
    let before = node.wait_running("web").await?;
    node.write("web.json", &manifest("96Mi"))?;
    let after = node
        .wait_pod("web", "restarted", |pod| pod.all_running() && pod.container("main").restarts == 1)
        .await?;
    ensure!(after.container("side") == before.container("side"), "{before:?}\n{after:?}");
    let memory = (96_u64 << 20).to_string();
    wait_limit(&node, &container_group(&after, "main"), MEMORY, &memory, &memory).await?;
    let memory = (128_u64 << 20).to_string();
    wait_limit(&node, &pod_group(), MEMORY, &memory, &memory).await
}

async fn resize_does_not_lower_memory_below_usage(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let manifest = |memory: &str| {
        web([with(container("main", "fill 60 -- sleep forever"), "/resources", sized("500m", memory))])
    };
    node.write("web.json", &manifest("128Mi"))?;
    let before = node.wait_running("web").await?;
    let main = container_group(&before, "main");
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.write("web.json", &manifest("32Mi"))?;
    let status = async || -> Result<()> {
        let api = node.api_pod("web").await?;
        let conditions = api.status.and_then(|status| status.conditions).unwrap_or_default();
        let found = conditions.iter().find(|one| one.type_ == "PodResizeInProgress");
        let (reason, message) = found
            .map(|one| (one.reason.clone().unwrap_or_default(), one.message.clone().unwrap_or_default()))
            .unwrap_or_default();
        ensure!(reason == "Error", "{conditions:?}");
        ensure!(message.starts_with("cannot decrease memory limits: "), "{message}");
        Ok(())
    };
    eventually("refused", Duration::from_secs(60), status).await?;
    let memory = (128_u64 << 20).to_string();
    for group in [&pod_group(), &main] {
        ensure!(read(&node, group, MEMORY)? == memory, "{group} was changed");
    }
    let after = node.pod("web").await?;
    ensure!(after.container("main") == before.container("main"), "{before:?}\n{after:?}");
    Ok(())
}

async fn restarted_agent_completes_resize(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("web.json", &one("100m", "64Mi"))?;
    let before = node.wait_running("web").await?;
    node.agent.kill9()?;
    node.write("web.json", &one("300m", "128Mi"))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    wait_sizes(&node, [&pod_group(), &container_group(&before, "main")], 30, 128).await?;
    let after = node.wait_running("web").await?;
    ensure!(after.container("main") == before.container("main"), "{before:?}\n{after:?}");
    Ok(())
}

/// UIDs of pods in one of the agent's checkpoints.
fn recorded(node: &Node, file: &str) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(node.agent.root().join(file)).context("read the checkpoint")?;
    let checkpoint: Value = serde_json::from_str(&text).context("decode the checkpoint")?;
    let data: Value = serde_json::from_str(checkpoint["data"].as_str().unwrap_or_default())?;
    Ok(data["entries"].as_object().into_iter().flatten().map(|(uid, _)| uid.clone()).collect())
}

async fn removed_pods_leave_the_checkpoint_of_allocations(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let uid = |name: &str| format!("5ca1ab1e-0000-4000-8000-00000000000{name}");
    let manifest = |name: &str, resources: Value| {
        let main = with(container("main", "sleep forever"), "/resources", resources);
        with(pod(name, [main]), "/metadata/uid", json!(uid(name)))
    };
    let wait_recorded = async |node: &Node, names: [&str; 2]| {
        let expected: BTreeSet<String> = names.into_iter().map(uid).collect();
        eventually("the live pods are recorded", Duration::from_secs(30), async || {
            let allocated = recorded(node, "allocated_pods_state")?;
            ensure!(allocated == expected, "allocated: {allocated:?}, not {expected:?}");
            // Upstream removes pods from this one later.
            let actuated = recorded(node, "actuated_pods_state")?;
            ensure!(actuated.is_superset(&expected), "actuated: {actuated:?}, not {expected:?}");
            Ok(())
        })
        .await
    };
    for name in ["a", "b"] {
        node.write(&format!("{name}.json"), &manifest(name, sized("100m", "64Mi")))?;
        node.wait_running(name).await?;
    }
    wait_recorded(&node, ["a", "b"]).await?;
    node.remove("a.json")?;
    node.wait_gone("a").await?;
    // Upstream writes the file with the next pod, even if that has no resources.
    node.write("c.json", &manifest("c", json!({})))?;
    node.wait_running("c").await?;
    wait_recorded(&node, ["b", "c"]).await?;
    node.agent.term().await?;
    node.remove("b.json")?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_gone("b").await?;
    node.write("d.json", &manifest("d", json!({})))?;
    node.wait_running("d").await?;
    wait_recorded(&node, ["c", "d"]).await
}
