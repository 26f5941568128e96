//! Restarts of the runtime and of the agent.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::poll::throughout;

scenarios!(
    runtime_restart_keeps_pods_running,
    agent_kill_restarts_no_container,
    terminated_agent_leaves_pods_running,
    applies_changes_made_during_agent_downtime,
);

async fn runtime_restart_keeps_pods_running(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("old.json", &sleeper("old"))?;
    node.wait_running("old").await?;
    let before = node.only_running("old").await?;
    node.runtime.terminate()?;
    node.write("new.json", &sleeper("new"))?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    node.runtime.resume().await?;
    node.wait_running("new").await?;
    let old = node.wait_running("old").await?;
    ensure!(old.container("main").restarts == 0, "{old:?}");
    ensure!(node.only_running("old").await?.id == before.id, "the container was restarted");
    let sandboxes = node.cri().sandboxes().await?;
    let ready = sandboxes.iter().filter(|sandbox| sandbox.ready).count();
    ensure!(ready == 2, "{sandboxes:?}");
    Ok(())
}

async fn agent_kill_restarts_no_container(agent: Agent) -> Result<()> {
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

async fn terminated_agent_leaves_pods_running(agent: Agent) -> Result<()> {
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

async fn applies_changes_made_during_agent_downtime(agent: Agent) -> Result<()> {
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
    let dies_pid = node.cri().pid(&dies.id).await?;
    node.agent.kill9()?;
    node.remove("removed.json")?;
    node.write("added.json", &sleeper("added"))?;
    testkit::instance::kill(dies_pid, rustix::process::Signal::KILL)?;
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
