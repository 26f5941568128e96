//! Namespaces that a pod shares with the host, and its containers with each other.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::poll::throughout;

scenarios!(
    namespaces_are_shared_as_specified,
    containers_can_share_process_namespace,
    user_namespace_is_created_or_pod_fails
);

async fn namespaces_are_shared_as_specified(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("own.json", &sleeper("own"))?;
    let shared = with(sleeper("shared"), "/spec/hostPID", json!(true));
    node.write("shared.json", &with(shared, "/spec/hostIPC", json!(true)))?;
    for (name, is_shared) in [("own", false), ("shared", true)] {
        node.wait_running(name).await?;
        let pid = node.cri().pid(&node.only_running(name).await?.id).await?;
        for (namespace, expected) in [("pid", is_shared), ("ipc", is_shared), ("net", false), ("mnt", false)]
        {
            let inside = fs::read_link(format!("/proc/{pid}/ns/{namespace}"))?;
            let outside = fs::read_link(format!("/proc/self/ns/{namespace}"))?;
            ensure!((inside == outside) == expected, "{name} {namespace}: {inside:?}, host {outside:?}");
        }
    }
    Ok(())
}

async fn containers_can_share_process_namespace(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let containers =
        || ["one", "two"].map(|name| container(name, "cat /proc/1/cmdline -- print . -- sleep forever"));
    node.write("apart.json", &pod("apart", containers()))?;
    let together = with(pod("together", containers()), "/spec/shareProcessNamespace", json!(true));
    node.write("together.json", &together)?;
    node.wait_running("apart").await?;
    node.wait_running("together").await?;
    for name in ["one", "two"] {
        let own = node.log("apart", name).await?;
        ensure!(own.contains("cmdline"), "process 1 is not its own: {own:?}");
        let shared = node.log("together", name).await?;
        ensure!(
            shared.contains("pause") && !shared.contains("cmdline"),
            "process 1 is not the sandbox's: {shared:?}"
        );
    }
    Ok(())
}

/// Support by the runtime depends on the machine; a pod must never fall back to the host's users.
async fn user_namespace_is_created_or_pod_fails(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    let isolated = pod("isolated", [container("main", "cat /proc/self/uid_map -- sleep forever")]);
    node.write("isolated.json", &with(isolated, "/spec/hostUsers", json!(false)))?;
    node.write("other.json", &sleeper("other"))?;
    node.wait_running("other").await?;
    let seen = node.wait_pod("isolated", "is known", |pod| !pod.phase.is_empty()).await?;
    let record = node.agent.root().join("pods").join(&seen.uid).join("userns");
    let started = testkit::poll::within("it runs", Duration::from_secs(5), async || {
        ensure!(node.pod("isolated").await?.all_running(), "not yet");
        Ok(())
    });
    if started.await.is_ok() {
        let log = node.log("isolated", "main").await?;
        let map: Vec<&str> = log.split_whitespace().collect();
        let first: u32 = map.get(1).context("uid_map")?.parse()?;
        ensure!(map.first() == Some(&"0") && first >= 65_536 && first.is_multiple_of(65_536), "{log}");
        let text = fs::read_to_string(&record)?;
        ensure!(text.contains(&format!("\"hostId\":{first},")), "{text}");
    } else {
        throughout("none of its containers run", Duration::from_secs(2), async || {
            let sandboxes = node.cri().sandboxes_of("isolated-node-a").await?;
            ensure!(sandboxes.is_empty(), "a sandbox was made");
            let pod = node.pod("isolated").await?;
            ensure!(pod.phase == "Pending", "{pod:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
