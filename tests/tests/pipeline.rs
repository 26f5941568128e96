//! From manifest files to running containers.

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, scenarios, sleeper};

scenarios!(add_pod_runs);

async fn add_pod_runs(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    let pod = node.wait_running("web").await?;
    ensure!(pod.container("main").restarts == 0);
    ensure!(pod.ip.starts_with(&node.containerd.instance().subnet()), "pod IP {}", pod.ip);
    Ok(())
}
