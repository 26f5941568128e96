//! API server outages.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, Quiet, container, pod, scenarios, sleeper, with};
use serde_json::json;
use testkit::poll::{eventually, throughout};

scenarios!(
    pods_keep_running_without_api_server,
    api_server_outage_leaves_no_trace,
    reports_changes_made_during_api_server_outage,
);

async fn pods_keep_running_without_api_server(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    node.apply(&sleeper("steady")).await?;
    node.apply(&sleeper("killed")).await?;
    node.wait_running("steady").await?;
    node.wait_running("killed").await?;
    let steady = node.running("steady").await?;
    let killed = node.running("killed").await?;
    node.plane.stop_api_server()?;
    let first = killed.first().context("a container")?;
    testkit::instance::kill(node.cri().pid(&first.id).await?, rustix::process::Signal::KILL)?;
    eventually("the container is restarted", Duration::from_secs(60), async || {
        let running = node.running("killed").await?;
        ensure!(running.first().is_some_and(|one| one.id != first.id), "{running:?}");
        Ok(())
    })
    .await?;
    throughout("nothing else changes", Duration::from_secs(60), async || {
        ensure!(node.running("steady").await? == steady, "a bystander was touched");
        ensure!(node.running("killed").await?.len() == 1, "restarted again");
        Ok(())
    })
    .await?;
    node.plane.start_api_server().await?;
    let reported = node
        .wait_pod("killed", "is reported", |pod| pod.container("main").restarts == 1 && pod.all_running());
    ensure!(reported.await?.container("main").exit_code == Some(137), "exit code");
    ensure!(node.running("steady").await? == steady, "the return touched a bystander");
    node.wait_schedulable().await?;
    node.apply(&sleeper("new")).await?;
    node.wait_running("new").await?;
    node.end()
}

async fn api_server_outage_leaves_no_trace(agent: Agent) -> Result<()> {
    let mut node = ClusterNode::start(agent).await?;
    node.apply(&sleeper("web")).await?;
    node.wait_running("web").await?;
    let before = Quiet::settle(&node).await?;
    node.plane.stop_api_server()?;
    tokio::time::sleep(Duration::from_secs(15)).await;
    node.plane.start_api_server().await?;
    before.hold(&node).await?;
    // The agent restarts while the API server is still down.
    node.agent.kill9()?;
    node.plane.stop_api_server()?;
    node.agent.start()?;
    throughout("the pod keeps running", Duration::from_secs(5), async || {
        ensure!(node.running("web").await?.len() == 1, "it does not run");
        Ok(())
    })
    .await?;
    node.plane.start_api_server().await?;
    node.agent.wait_ready().await?;
    before.hold(&node).await?;
    node.end()
}

async fn reports_changes_made_during_api_server_outage(agent: Agent) -> Result<()> {
    let node = ClusterNode::start(agent).await?;
    let once = pod("once", [container("main", "exit 4 --after 8")]);
    node.apply(&with(once, "/spec/restartPolicy", json!("Never"))).await?;
    node.wait_running("once").await?;
    node.plane.stop_api_server()?;
    eventually("it has ended", Duration::from_secs(60), async || {
        ensure!(node.running("once").await?.is_empty(), "it runs");
        Ok(())
    })
    .await?;
    node.plane.start_api_server().await?;
    let pod = node.wait_pod("once", "has failed", |pod| pod.phase == "Failed").await?;
    ensure!(pod.container("main").exit_code == Some(4) && pod.container("main").restarts == 0, "{pod:?}");
    node.end()
}
