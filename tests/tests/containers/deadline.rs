use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, podward_only, scenarios, with};
use serde_json::json;
use testkit::poll::throughout;

use crate::diary::{Diary, writer};

scenarios!(pod_fails_at_its_active_deadline);
podward_only!(active_deadline_survives_agent_restart);

async fn pod_fails_at_its_active_deadline(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "job")?;
    let manifest = diary.pod("job", [], [writer("main")]);
    node.write("job.json", &with(manifest, "/spec/activeDeadlineSeconds", json!(4)))?;
    node.wait_running("job").await?;
    expect_ended(&node, &diary).await
}

/// Upstream restarts the count when it is restarted without an API server.
async fn active_deadline_survives_agent_restart(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let diary = Diary::new(&node, "job")?;
    let manifest = diary.pod("job", [], [writer("main")]);
    node.write("job.json", &with(manifest, "/spec/activeDeadlineSeconds", json!(5)))?;
    node.wait_running("job").await?;
    diary.wait(&["main"]).await?;
    node.agent.kill9()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let start = std::time::Instant::now();
    expect_ended(&node, &diary).await?;
    ensure!(start.elapsed() < Duration::from_secs(20));
    Ok(())
}

async fn expect_ended(node: &Node, diary: &Diary) -> Result<()> {
    node.wait_pod("job", "fails", |pod| pod.phase == "Failed").await?;
    let status = node.api_pod("job").await?.status.unwrap_or_default();
    ensure!(status.reason.as_deref() == Some("DeadlineExceeded"), "{:?}", status.reason);
    let message = "Pod was active on the node longer than the specified deadline";
    ensure!(status.message.as_deref() == Some(message), "{:?}", status.message);
    diary.wait(&["main", "main-end"]).await?;
    throughout("nothing is restarted", Duration::from_secs(3), async || {
        let pod = node.pod("job").await?;
        ensure!(pod.phase == "Failed" && pod.container("main").restarts == 0, "{pod:?}");
        Ok(())
    })
    .await?;
    ensure!(diary.lines() == ["main", "main-end"], "{:?}", diary.lines());
    Ok(())
}
