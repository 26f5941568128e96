//! Replacing the agent of a running node with the other one, and going back.

use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, condition};
use testkit::machine::Machine;
use testkit::poll::{throughout, within};

use crate::cluster::{Cluster, TIMEOUT};

/// How long after a switch every container must still be the same.
const OBSERVATION_TIME: Duration = Duration::from_secs(5);
/// A sandbox is removed a moment after its pod.
const SETTLE_TIME: Duration = Duration::from_secs(3);

/// Switches both machines to the other agent and back; no container of either ends or starts.
pub(crate) async fn switch_agents(cluster: &Cluster, agent: Agent) -> Result<()> {
    let other = match agent {
        Agent::Podward => Agent::Upstream,
        Agent::Upstream => Agent::Podward,
    };
    for next in [other, agent] {
        for machine in [&cluster.first, &cluster.second] {
            let before = settled_containers(cluster, machine).await?;
            machine.switch_agent(next).await?;
            wait_reported(cluster, machine, next).await?;
            throughout("the same containers run", OBSERVATION_TIME, async || {
                let now = containers(machine).await?;
                ensure!(now == before, "{} had {before:?}, has {now:?} with {}", machine.name(), next.name());
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

/// Waits until the node is ready with the agent's version, and the agent serves with the approved certificate.
async fn wait_reported(cluster: &Cluster, machine: &Machine, agent: Agent) -> Result<()> {
    within("node has another agent", TIMEOUT, async || {
        let node = cluster.first.get(&["node", machine.name()]).await?;
        let version = node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default();
        ensure!(version.contains("podward") == (agent == Agent::Podward), "the node's version is {version}");
        ensure!(condition(&node, "Ready") == "True", "{}", node["status"]["conditions"]);
        cluster.check_serving_certificate(machine).await
    })
    .await
}

/// The containers once no pod is ending: what is left of a rollout would look like a lost container.
async fn settled_containers(cluster: &Cluster, machine: &Machine) -> Result<Vec<String>> {
    within("no pod is ending", TIMEOUT, async || {
        let pods = cluster.first.get(&["pods", "--all-namespaces"]).await?;
        let all = pods["items"].as_array().into_iter().flatten();
        let ending = all.filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count();
        ensure!(ending == 0, "{ending} pods are ending");
        let before = containers(machine).await?;
        throughout("no sandbox is being removed", SETTLE_TIME, async || {
            let now = containers(machine).await?;
            ensure!(now == before, "{} had {before:?}, has {now:?}", machine.name());
            Ok(())
        })
        .await?;
        Ok(before)
    })
    .await
}

/// Identifiers of all running containers, sandboxes included.
async fn containers(machine: &Machine) -> Result<Vec<String>> {
    let list = machine.run("ctr", &["--namespace", "k8s.io", "tasks", "list", "--quiet"]).await?;
    let mut all: Vec<String> = list.lines().map(str::to_owned).collect();
    all.sort();
    Ok(all)
}
