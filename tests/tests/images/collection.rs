//! Images that nobody uses.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, sleeper};
use serde_json::json;
use testkit::images::{DEMO, DEMO_2};
use testkit::poll::{eventually, throughout};

// Upstream forgets what it knew of images when it is restarted, and looks each five minutes only.
podward_only!(an_image_unused_for_too_long_goes_also_after_a_restart);

async fn an_image_unused_for_too_long_goes_also_after_a_restart(agent: Agent) -> Result<()> {
    let overlay = json!({"imageMinimumGCAge": "1s", "imageMaximumGCAge": "8s"});
    let mut node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    let images = async || node.cri().images().await;
    throughout("a young image stays", Duration::from_secs(2), async || {
        ensure!(images().await?.iter().any(|image| image == DEMO_2), "{DEMO_2} is gone");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    node.restart_agent().await?;
    let images = async || node.cri().images().await;
    eventually("the old image is gone", Duration::from_secs(30), async || {
        ensure!(!images().await?.iter().any(|image| image == DEMO_2), "{DEMO_2} is still there");
        Ok(())
    })
    .await?;
    let left = images().await?;
    ensure!(left.iter().any(|image| image == DEMO), "{left:?}");
    ensure!(node.pod("web").await?.all_running(), "the pod goes on running");
    Ok(())
}
