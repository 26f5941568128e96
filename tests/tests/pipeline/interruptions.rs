//! The runtime or the agent goes away and comes back.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::poll::throughout;

scenarios!(
    runtime_stopped_and_started,
    agent_killed_restarts_nothing,
    agent_terminated_leaves_the_pods,
    what_happened_while_the_agent_was_down,
);

async fn runtime_stopped_and_started(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("old.json", &sleeper("old"))?;
    node.wait_running("old").await?;
    let before = node.only_running("old").await?;
    node.containerd.terminate()?;
    node.write("new.json", &sleeper("new"))?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    node.containerd.resume().await?;
    node.wait_running("new").await?;
    let old = node.wait_running("old").await?;
    ensure!(old.container("main").restarts == 0, "{old:?}");
    ensure!(node.only_running("old").await?.id == before.id, "the container was restarted");
    let sandboxes = node.cri().sandboxes().await?;
    let ready = sandboxes.iter().filter(|sandbox| sandbox.ready).count();
    ensure!(ready == 2, "{sandboxes:?}");
    Ok(())
}

async fn agent_killed_restarts_nothing(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    for number in 0..4 {
        node.write(&format!("{number}.json"), &sleeper(&format!("pod-{number}")))?;
    }
    for number in 0..4 {
        node.wait_running(&format!("pod-{number}")).await?;
    }
    let before = node.cri().containers().await?;
    let sandboxes = node.cri().sandboxes().await?;
    for _ in 0..2 {
        node.restart_agent().await?;
        for number in 0..4 {
            node.wait_running(&format!("pod-{number}")).await?;
        }
        throughout("same containers", Duration::from_secs(4), async || {
            ensure!(node.cri().containers().await? == before, "containers changed");
            ensure!(node.cri().sandboxes().await? == sandboxes, "sandboxes changed");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn agent_terminated_leaves_the_pods(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    let before = node.cri().containers().await?;
    node.agent.term().await?;
    ensure!(node.cri().containers().await? == before, "stopping the agent changed containers");
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_running("web").await?;
    ensure!(node.cri().containers().await? == before, "starting the agent changed containers");
    Ok(())
}

async fn what_happened_while_the_agent_was_down(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    for name in ["stays", "removed", "dies"] {
        node.write(&format!("{name}.json"), &sleeper(name))?;
    }
    let once = pod("once", [container("main", "exit 9 --after 4")]);
    node.write("once.json", &with(once, "/spec/restartPolicy", json!("Never")))?;
    for name in ["stays", "removed", "dies", "once"] {
        node.wait_running(name).await?;
    }
    let stays = node.only_running("stays").await?;
    let dies = node.only_running("dies").await?;
    node.agent.kill9()?;
    node.remove("removed.json")?;
    node.write("added.json", &sleeper("added"))?;
    testkit::instance::kill(node.cri().pid(&dies.id).await?, rustix::process::Signal::KILL)?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_running("added").await?;
    node.wait_gone("removed").await?;
    let again = node
        .wait_pod("dies", "runs again", |pod| pod.all_running() && pod.container("main").restarts == 1)
        .await?;
    ensure!(again.container("main").exit_code == Some(137), "{again:?}");
    let once = node.wait_pod("once", "has failed", |pod| pod.phase == "Failed").await?;
    ensure!(once.container("main").exit_code == Some(9) && once.container("main").restarts == 0, "{once:?}");
    ensure!(node.only_running("stays").await?.id == stays.id, "a bystander was restarted");
    Ok(())
}
