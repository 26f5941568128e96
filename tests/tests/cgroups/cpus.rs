//! The static CPU policy: exclusive CPUs in the cgroups of containers, the shared pool, rejections, and restarts.
//!
//! The node reserves one CPU. The scenarios need a second one, and take all others where they must exhaust them.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, PodView, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::{eventually, throughout};
use values::cpu_set::CpuSet;

use crate::files::{CPUS, QUOTA, read, wait_limit};

scenarios!(
    exclusive_cpus_are_taken_from_running_shared_containers,
    guaranteed_pod_that_does_not_fit_is_rejected,
    exclusive_cpus_survive_restarts_of_the_agent,
    changed_cpu_policy_is_refused_at_start,
);

#[test]
fn exclusive_cpus_survive_a_switch_to_podward_and_back() {
    if Agent::Upstream.selected() && Agent::Podward.selected() {
        let name = "cgroups::exclusive_cpus_survive_a_switch_to_podward_and_back";
        scenarios::run(Agent::Podward, name, |_| switch_agents());
    }
}

fn options() -> AgentOptions {
    let overlay = json!({
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "1s",
        "systemReserved": {"cpu": "100m"},
    });
    AgentOptions { overlay, ..AgentOptions::default() }
}

/// A Guaranteed pod.
fn pinned(name: &str, cpus: usize) -> Value {
    let resources = json!({"cpu": cpus.to_string(), "memory": "16Mi"});
    let resources = json!({"requests": resources, "limits": resources});
    pod(name, [with(container("main", "sleep forever"), "/resources", resources)])
}

fn shared(name: &str) -> Value {
    pod(name, [container("main", "sleep forever")])
}

fn state(node: &Node) -> Result<Value> {
    let content = fs::read(node.agent.root().join("cpu_manager_state"))?;
    serde_json::from_slice(&content).context("cpu_manager_state")
}

fn all_cpus() -> Result<CpuSet> {
    Ok(fs::read_to_string("/sys/devices/system/cpu/online")?.trim().parse()?)
}

fn cgroup(pod: &PodView, class: &str) -> Result<String> {
    let main = pod.container("main");
    let id = main.id.split_once("://").context("no container id")?.1;
    Ok(format!("kubepods/{class}pod{}/{id}", pod.uid))
}

fn cpus_of(node: &Node, cgroup: &str) -> Result<CpuSet> {
    Ok(read(node, cgroup, CPUS)?.parse()?)
}

async fn wait_cpus(node: &Node, cgroup: &str, expected: &CpuSet) -> Result<()> {
    eventually(&format!("{cgroup} has the CPUs {expected}"), Duration::from_secs(60), async || {
        let found = cpus_of(node, cgroup)?;
        ensure!(found == *expected, "{found}");
        Ok(())
    })
    .await
}

async fn exclusive_cpus_are_taken_from_running_shared_containers(agent: Agent) -> Result<()> {
    let all = all_cpus()?;
    let node = Node::start_with(agent, &options()).await?;
    node.write("shared.json", &shared("shared"))?;
    let before = node.wait_running("shared").await?;
    let other = cgroup(&before, "besteffort/")?;
    wait_cpus(&node, &other, &all).await?;
    node.write("own.json", &pinned("own", 1))?;
    let own = node.wait_running("own").await?;
    let group = cgroup(&own, "")?;
    let cpus = cpus_of(&node, &group)?;
    ensure!(cpus.len() == 1 && cpus.is_subset(&all), "{cpus}");
    let entry = &state(&node)?["entries"][&own.uid]["main"];
    ensure!(*entry == json!(cpus.to_string()), "{entry} is not {cpus}");
    wait_limit(&node, &group, QUOTA, "-1", "max 100000").await?;
    wait_limit(&node, &format!("kubepods/pod{}", own.uid), QUOTA, "-1", "max 100000").await?;
    wait_cpus(&node, &other, &all.difference(&cpus)).await?;
    node.remove("own.json")?;
    node.wait_gone("own").await?;
    wait_cpus(&node, &other, &all).await?;
    let after = node.pod("shared").await?;
    ensure!(after.container("main") == before.container("main"), "{after:?}");
    Ok(())
}

async fn guaranteed_pod_that_does_not_fit_is_rejected(agent: Agent) -> Result<()> {
    let free = all_cpus()?.len() - 1;
    let node = Node::start_with(agent, &options()).await?;
    node.write("own.json", &pinned("own", free))?;
    node.wait_running("own").await?;
    node.write("late.json", &pinned("late", 1))?;
    node.wait_pod("late", "is rejected", |pod| pod.phase == "Failed").await?;
    let status = node.api_pod("late").await?.status.context("no status")?;
    ensure!(status.reason.as_deref() == Some("UnexpectedAdmissionError"), "{:?}", status.reason);
    let message = "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: requested=1, available=0, which is unexpected";
    ensure!(status.message.as_deref() == Some(message), "{:?}", status.message);
    Ok(())
}

async fn exclusive_cpus_survive_restarts_of_the_agent(agent: Agent) -> Result<()> {
    let mut node = Node::start_with(agent, &options()).await?;
    node.write("own.json", &pinned("own", 1))?;
    let own = node.wait_running("own").await?;
    let group = cgroup(&own, "")?;
    let (cpus, stored) = (cpus_of(&node, &group)?, state(&node)?);
    node.agent.term().await?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.wait_running("own").await?;
    node.restart_agent().await?;
    throughout("same container and CPUs", Duration::from_secs(6), async || {
        let now = node.wait_running("own").await?;
        ensure!(now.container("main") == own.container("main"), "{now:?}");
        ensure!(cpus_of(&node, &group)? == cpus && state(&node)? == stored, "the CPUs changed");
        Ok(())
    })
    .await
}

async fn changed_cpu_policy_is_refused_at_start(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    // Upstream writes the file some time after it is healthy.
    eventually("state of the none policy", Duration::from_secs(60), async || {
        let state = state(&node)?;
        ensure!(state["checksum"] == json!(1_353_318_690), "{state}");
        Ok(())
    })
    .await?;
    node.agent.term().await?;
    node.configure(agent, &options())?;
    node.agent.start()?;
    // Upstream's log escapes the quotation marks around the policies.
    node.agent.wait_log("differs from state checkpoint policy", Duration::from_secs(60)).await
}

async fn switch_agents() -> Result<()> {
    let mut node = Node::start_with(Agent::Upstream, &options()).await?;
    node.write("own.json", &pinned("own", 1))?;
    node.write("shared.json", &shared("shared"))?;
    let own = node.wait_running("own").await?;
    let group = cgroup(&own, "")?;
    let other = cgroup(&node.wait_running("shared").await?, "besteffort/")?;
    let (cpus, stored) = (cpus_of(&node, &group)?, state(&node)?);
    let rest = all_cpus()?.difference(&cpus);
    for agent in [Agent::Podward, Agent::Upstream] {
        let containers = node.cri().containers().await?;
        node.agent.term().await?;
        node.agent.become_kind(agent)?;
        node.agent.start()?;
        node.agent.wait_ready().await?;
        throughout("same containers and CPUs after the switch", Duration::from_secs(6), async || {
            let now = node.cri().containers().await?;
            ensure!(now == containers, "containers changed\nbefore {containers:#?}\nnow {now:#?}");
            ensure!(cpus_of(&node, &group)? == cpus, "other exclusive CPUs");
            ensure!(cpus_of(&node, &other)? == rest, "another shared pool");
            ensure!(state(&node)? == stored, "{} is not {stored}", state(&node)?);
            Ok(())
        })
        .await?;
    }
    Ok(())
}
