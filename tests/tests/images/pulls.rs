//! Parallel pulls.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, podward_only, scenarios, sleeper, with};
use serde_json::json;
use testkit::registry::{Registry, RegistryOptions};

scenarios!(pulls_run_in_parallel_up_to_the_limit);
podward_only!(pods_with_the_same_image_share_one_pull);

fn slow() -> RegistryOptions {
    RegistryOptions { delay: Duration::from_secs(1), ..RegistryOptions::default() }
}

async fn pulls_run_in_parallel_up_to_the_limit(agent: Agent) -> Result<()> {
    let registry = Registry::start(slow()).await?;
    let overlay = json!({"serializeImagePulls": false, "maxParallelImagePulls": 2});
    let node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    for number in 0..5 {
        let name = format!("p{number}");
        let image = registry.image(&format!("app{number}:1"));
        node.write(&format!("{name}.json"), &with(sleeper(&name), "/spec/containers/0/image", json!(image)))?;
    }
    for number in 0..5 {
        node.wait_running(&format!("p{number}")).await?;
        ensure!(registry.lookups(&format!("app{number}:1")) == 1, "image {number} is pulled once");
    }
    ensure!(registry.most_at_once() == 2, "{} pulls at once", registry.most_at_once());
    Ok(())
}

async fn pods_with_the_same_image_share_one_pull(agent: Agent) -> Result<()> {
    let registry = Registry::start(RegistryOptions { delay: Duration::from_secs(4), ..slow() }).await?;
    let overlay = json!({"serializeImagePulls": false});
    let node = Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await?;
    for number in 0..4 {
        let name = format!("p{number}");
        let pod = with(sleeper(&name), "/spec/containers/0/image", json!(registry.image("app:1")));
        let pod = with(pod, "/spec/containers/0/imagePullPolicy", json!("Always"));
        node.write(&format!("{name}.json"), &pod)?;
    }
    for number in 0..4 {
        node.wait_running(&format!("p{number}")).await?;
    }
    ensure!(registry.lookups("app:1") == 1, "{} pulls", registry.lookups("app:1"));
    Ok(())
}
