//! The agent is killed while it sets up or tears down volumes.

use std::time::Duration;

use anyhow::Result;
use scenarios::{Agent, Node, podward_only};
use serde_json::json;

use super::{folder, log_with, pod_with, remove};

podward_only!(killed_agent_leaves_no_mounts_behind);

async fn killed_agent_leaves_no_mounts_behind(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    for round in 0..4_u64 {
        let name = format!("web-{round}");
        let mounts = json!([
            {"name": "a", "mountPath": "/a"},
            {"name": "b", "mountPath": "/b", "subPath": "x/y"},
            {"name": "c", "mountPath": "/c"},
            {"name": "d", "mountPath": "/d", "subPath": "z"},
        ]);
        let memory = json!({"medium": "Memory", "sizeLimit": "1Mi"});
        let volumes = json!([
            {"name": "a", "emptyDir": memory}, {"name": "b", "emptyDir": memory},
            {"name": "c", "emptyDir": {}}, {"name": "d", "emptyDir": {}},
        ]);
        node.write(&format!("{name}.json"), &pod_with(&name, "touch /b/x; echo up", mounts, volumes))?;
        tokio::time::sleep(Duration::from_millis(15 * (round + 1))).await;
        node.restart_agent().await?;
        log_with(&node, &name, "up").await?;
        folder(&node, &name).await?;
        // Kills it during the teardown as well.
        if round % 2 == 1 {
            node.remove(&format!("{name}.json"))?;
            tokio::time::sleep(Duration::from_millis(200 * round)).await;
            node.restart_agent().await?;
            node.wait_gone(&name).await?;
        } else {
            remove(&node, &name).await?;
        }
    }
    let root = node.agent.root().join("pods");
    testkit::poll::eventually("no pod folder and no mount is left", Duration::from_secs(60), async || {
        let left = std::fs::read_dir(&root)?.count();
        anyhow::ensure!(left == 0, "{left} folders");
        let text = root.display().to_string();
        let mounted: Vec<_> =
            testkit::process::mount_points().into_iter().filter(|point| point.starts_with(&text)).collect();
        anyhow::ensure!(mounted.is_empty(), "{mounted:?}");
        Ok(())
    })
    .await
}
