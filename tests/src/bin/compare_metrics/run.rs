//! Runs one agent with all pods.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use scenarios::{Agent, AgentOptions, Node};
use serde_json::json;

use crate::pods;

/// Pages of the read-only port.
pub(crate) const PAGES: [&str; 4] = ["/stats/summary", "/metrics/resource", "/metrics/cadvisor", "/metrics"];

/// Run time of the pods before the pages are read: upstream samples every ten to fifteen seconds.
const SETTLE_TIME: Duration = Duration::from_secs(45);

/// Pages by path.
pub(crate) type Pages = BTreeMap<String, String>;

pub(crate) async fn run(agent: Agent) -> Result<Pages> {
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    node.print_log_on_drop = false;
    node.configure(agent, &options(agent, &node))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let pods = pods::all(&node.runtime.instance().folder().display().to_string());
    for (name, manifest) in &pods {
        node.write(&format!("{name}.json"), manifest)?;
    }
    for (name, _) in &pods {
        node.wait_running(name).await?;
    }
    // Rates need an earlier sample, so the first response is discarded.
    tokio::time::sleep(SETTLE_TIME / 2).await;
    for path in PAGES {
        node.agent.page(path).await?;
    }
    tokio::time::sleep(SETTLE_TIME / 2).await;
    let mut pages = Pages::new();
    for path in PAGES {
        let text = node.agent.page(path).await.with_context(|| format!("read {path}"))?;
        pages.insert(path.to_owned(), text);
    }
    Ok(pages)
}

/// Volumes are measured often, and upstream's statistics find the containers of our runtime.
fn options(agent: Agent, node: &Node) -> AgentOptions {
    let socket = node.runtime.instance().socket();
    let arguments = match agent {
        Agent::Upstream => vec![format!("--containerd={}", socket.display())],
        Agent::Podward => Vec::new(),
    };
    AgentOptions { overlay: json!({"volumeStatsAggPeriod": "10s"}), arguments, ..AgentOptions::default() }
}
