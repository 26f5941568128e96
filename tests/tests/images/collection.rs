//! Garbage collection of unused images.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, sleeper};
use serde_json::json;
use testkit::images::{DEMO, DEMO_2};
use testkit::poll::{eventually, throughout};

// Upstream loses its image state in a restart, and checks only every five minutes.
podward_only!(unused_image_is_collected_by_age_after_restart);

async fn unused_image_is_collected_by_age_after_restart(agent: Agent) -> Result<()> {
    let overlay = json!({"imageMinimumGCAge": "1s", "imageMaximumGCAge": "8s"});
    let mut node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    let images = async || node.cri().images().await;
    throughout("a recently used image stays", Duration::from_secs(2), async || {
        ensure!(images().await?.iter().any(|image| image == DEMO_2), "{DEMO_2} is gone");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    node.restart_agent().await?;
    let images = async || node.cri().images().await;
    eventually("the old image is removed", Duration::from_secs(30), async || {
        ensure!(!images().await?.iter().any(|image| image == DEMO_2), "{DEMO_2} is still there");
        Ok(())
    })
    .await?;
    let left = images().await?;
    ensure!(left.iter().any(|image| image == DEMO), "{left:?}");
    ensure!(node.pod("web").await?.all_running(), "the pod is not running");
    Ok(())
}
