//! A node with resized pods is handed from one agent to the other, and back, without a restart.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, ClusterNode, sleeper};
use serde_json::{Value, json};
use testkit::cri_view::ContainerView;
use testkit::poll::throughout;

use super::matrix::{Case, Step, cases};
use super::{patch, wait_settled};

#[test]
fn podward_to_upstream_and_back_keeps_resized_pods() {
    both("podward_to_upstream_and_back_keeps_resized_pods", Agent::Podward, Agent::Upstream);
}

#[test]
fn upstream_to_podward_and_back_keeps_resized_pods() {
    both("upstream_to_podward_and_back_keeps_resized_pods", Agent::Upstream, Agent::Podward);
}

fn both(name: &str, first: Agent, second: Agent) {
    if first.selected() && second.selected() {
        let name = format!("cluster_node::resize::switch::{name}");
        scenarios::run(Agent::Podward, &name, |_| hand_over(first, second));
    }
}

/// Pods of every kind and policy; those at even positions are resized before the first switch.
const PODS: [&str; 12] = [
    "regular-both-both-in-place",
    "regular-both-limits-in-place",
    "regular-both-both-restart",
    "regular-both-limits-restart",
    "regular-memory-both-mixed",
    "regular-cpu-both-mixed",
    "sidecar-both-both-restart",
    "sidecar-both-both-in-place",
    "pod-both-both-restart",
    "pod-both-limits-restart",
    "pod-memory-requests-in-place",
    "guaranteed-cpu-both-restart",
];

async fn hand_over(first: Agent, second: Agent) -> Result<()> {
    let mut node = ClusterNode::start(first).await?;
    let all = cases();
    let find = |name: &str| {
        all.iter()
            .find(|case| case.pod["metadata"]["name"] == name)
            .with_context(|| format!("no case {name}"))
    };
    let cases: Vec<&Case> = PODS.into_iter().map(find).collect::<Result<_>>()?;
    let mut pods: Vec<Value> = cases.iter().map(|case| case.pod.clone()).collect();
    pods.push(sleeper("without-resources"));
    node.apply(&json!({"apiVersion": "v1", "kind": "List", "items": pods})).await?;
    wait_settled_and_running(&node).await?;
    for case in cases.iter().step_by(2) {
        patch(&node, case, Step::Up).await?;
    }
    wait_settled_and_running(&node).await?;
    for (agent, step) in [(second, Step::Down), (first, Step::Up)] {
        let containers = running(&node).await?;
        node.agent.term().await?;
        node.agent.become_kind(agent)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        node.wait_schedulable().await?;
        throughout("same containers after the switch", Duration::from_secs(12), async || {
            let now = running(&node).await?;
            ensure!(now == containers, "on {}:\nbefore {containers:#?}\nnow {now:#?}", agent.name());
            Ok(())
        })
        .await?;
        // The agent resizes pods that the other one started and resized.
        for case in cases.iter().take(4) {
            patch(&node, case, step).await?;
        }
        wait_settled_and_running(&node).await?;
    }
    let log = node.agent.log_tail(usize::MAX);
    let missing: Vec<&str> = log.lines().filter(|line| line.contains("Missing actuated")).collect();
    ensure!(missing.is_empty(), "upstream misses records: {missing:#?}");
    node.end()
}

async fn wait_settled_and_running(node: &ClusterNode) -> Result<()> {
    node.wait_running("without-resources").await?;
    wait_settled(node, "are settled").await.map(drop)
}

/// The running containers, in a stable order.
async fn running(node: &ClusterNode) -> Result<Vec<ContainerView>> {
    let mut all = node.cri().containers().await?;
    all.retain(ContainerView::running);
    all.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(all)
}
