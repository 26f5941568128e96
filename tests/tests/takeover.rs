//! A running node is handed from one agent to the other, and back, without a restart.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, PodView, container, pod, sleeper, with};
use serde_json::json;
use testkit::poll::{eventually, throughout};

#[test]
fn upstream_to_podward_and_back() {
    both("takeover::upstream_to_podward_and_back", Agent::Upstream, Agent::Podward);
}

#[test]
fn podward_to_upstream_and_back() {
    both("takeover::podward_to_upstream_and_back", Agent::Podward, Agent::Upstream);
}

/// Checks the test itself: upstream takes over from upstream.
#[test]
fn upstream_to_upstream() {
    let name = "takeover::upstream_to_upstream";
    scenarios::run(Agent::Upstream, name, |_| hand_over(Agent::Upstream, Agent::Upstream));
}

fn both(name: &str, first: Agent, second: Agent) {
    if first.selected() && second.selected() {
        // Podward takes part, so its number of attempts applies.
        scenarios::run(Agent::Podward, name, |_| hand_over(first, second));
    }
}

const COUNT: usize = 20;

async fn hand_over(first: Agent, second: Agent) -> Result<()> {
    let mut node = Node::prepare(first, &AgentOptions::default()).await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    write_manifests(&node)?;
    wait_settled(&node).await?;
    let pods = all(&node).await?;
    for agent in [second, first] {
        let containers = node.cri().containers().await?;
        let sandboxes = node.cri().sandboxes().await?;
        node.agent.term().await?;
        node.agent.become_kind(agent)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        wait_settled(&node).await?;
        throughout("same containers after the switch", Duration::from_secs(12), async || {
            let now = node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            ensure!(node.cri().sandboxes().await? == sandboxes, "sandboxes changed");
            Ok(())
        })
        .await?;
        let now = all(&node).await?;
        for (before, now) in pods.iter().zip(&now) {
            ensure!(before == now, "after the switch to {}:\nbefore {before:?}\nnow {now:?}", agent.name());
        }
    }
    // The last agent fully manages the pods that the other one started.
    node.remove("pod-00.json")?;
    node.wait_gone("pod-00").await?;
    node.write("fresh.json", &sleeper("fresh"))?;
    node.wait_running("fresh").await?;
    Ok(())
}

fn write_manifests(node: &Node) -> Result<()> {
    for number in 0..COUNT {
        let name = format!("pod-{number:02}");
        let mut manifest = sleeper(&name);
        if number % 4 == 1 {
            manifest = with(
                manifest,
                "/metadata/uid",
                json!(format!("00000000-0000-0000-0000-0000000000{number:02}")),
            );
        }
        if number % 4 == 2 {
            manifest =
                with(manifest, "/spec/volumes", json!([{"name": "x", "emptyDir": {"medium": "Memory"}}]));
            let mounts = json!([{"name": "x", "mountPath": "/x"}]);
            manifest = with(manifest, "/spec/containers/0/volumeMounts", mounts);
        }
        if number % 4 == 3 {
            let resources = json!({"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "64Mi"}});
            manifest = with(manifest, "/spec/containers/0/resources", resources);
            // An agent that does not know which resources are in force would restart the container.
            let policy = ["cpu", "memory"]
                .map(|name| json!({"resourceName": name, "restartPolicy": "RestartContainer"}));
            manifest = with(manifest, "/spec/containers/0/resizePolicy", json!(policy));
        }
        node.write(&format!("{name}.json"), &manifest)?;
    }
    let done = with(pod("done", [container("main", "exit 5")]), "/spec/restartPolicy", json!("Never"));
    node.write("done.json", &done)
}

async fn wait_settled(node: &Node) -> Result<()> {
    for number in 0..COUNT {
        node.wait_running(&format!("pod-{number:02}")).await?;
    }
    node.wait_pod("done", "has failed", |pod| pod.phase == "Failed").await?;
    eventually("the ended pod has no sandbox", Duration::from_secs(30), async || {
        let sandboxes = node.cri().sandboxes_of("done-node-a").await?;
        ensure!(sandboxes.iter().all(|sandbox| !sandbox.ready), "still ready");
        Ok(())
    })
    .await
}

async fn all(node: &Node) -> Result<Vec<PodView>> {
    let mut pods: Vec<PodView> = node.agent.pods().await?.iter().map(scenarios::view).collect();
    for ended in pods.iter_mut().filter(|pod| pod.phase == "Failed") {
        // Upstream loses the address of a finished pod in a restart.
        ended.ip.clear();
    }
    pods.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(pods)
}
