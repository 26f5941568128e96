//! `podward.dev/restart-on-change`.

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, container, pod, podward_only, with};
use serde_json::{Value, json};

use crate::support::{config_map, lines};

podward_only!(
    object_change_restarts_pods_with_the_annotation,
    object_change_during_agent_downtime_restarts_pods
);

fn asking(name: &str, asks: bool) -> Value {
    let bulk = json!([{"configMapRef": {"name": "settings"}}]);
    let user = |name: &str| with(container(name, "env -- sleep forever"), "/envFrom", bulk.clone());
    let manifest = pod(name, [user("one"), user("two"), container("other", "sleep forever")]);
    with(manifest, "/metadata/annotations", json!({"podward.dev/restart-on-change": asks.to_string()}))
}

async fn restarted(node: &Node, name: &str, value: &str) -> Result<()> {
    let pod = node
        .wait_pod(name, "was restarted", |pod| {
            pod.all_running() && pod.container("one").restarts == 1 && pod.container("two").restarts == 1
        })
        .await?;
    ensure!(pod.container("other").restarts == 0, "a container without the object was restarted");
    for container in ["one", "two"] {
        let found = lines(node, name, container, "LEVEL").await?;
        ensure!(found == [format!("LEVEL={value}")], "{container}: {found:?}");
    }
    Ok(())
}

async fn object_change_restarts_pods_with_the_annotation(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("map.json", &config_map("settings", &json!({"LEVEL": "1"})))?;
    node.write("asking.json", &asking("asking", true))?;
    node.write("silent.json", &asking("silent", false))?;
    node.wait_running("asking").await?;
    let silent = node.wait_running("silent").await?;
    node.write("map.json", &config_map("settings", &json!({"LEVEL": "2"})))?;
    restarted(&node, "asking", "2").await?;
    ensure!(node.pod("silent").await? == silent, "a pod that did not ask was restarted");
    Ok(())
}

async fn object_change_during_agent_downtime_restarts_pods(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("map.json", &config_map("settings", &json!({"LEVEL": "1"})))?;
    node.write("asking.json", &asking("asking", true))?;
    node.wait_running("asking").await?;
    node.agent.kill9()?;
    node.write("map.json", &config_map("settings", &json!({"LEVEL": "2"})))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    restarted(&node, "asking", "2").await?;
    node.restart_agent().await?;
    let pod = node.wait_running("asking").await?;
    ensure!(pod.container("one").restarts == 1, "an unchanged object restarted a container");
    Ok(())
}
