//! Rejected pods, and preemption.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::poll::{eventually, throughout};

use crate::{refused, verdict};

scenarios!(
    unsafe_sysctls_are_rejected_unless_allowed,
    host_port_belongs_to_one_pod_until_removal,
    rejects_pods_over_max_pods,
    rejects_pods_over_node_resources,
    rejects_pods_whose_node_selector_does_not_match,
    critical_pod_preempts_less_important_one,
);

async fn start(agent: Agent, overlay: Value) -> Result<Node> {
    Node::start_with(agent, &AgentOptions { overlay, ..AgentOptions::default() }).await
}

async fn unsafe_sysctls_are_rejected_unless_allowed(agent: Agent) -> Result<()> {
    let node = start(agent, json!({"allowedUnsafeSysctls": ["net.core.somax*"]})).await?;
    let sysctl = |name: &str, value: &str| json!({"name": name, "value": value});
    let bad =
        with(sleeper("bad"), "/spec/securityContext", json!({"sysctls": [sysctl("kernel.msgmax", "9000")]}));
    node.write("bad.json", &bad)?;
    let steps = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start -- cat /proc/sys/net/core/somaxconn -- sleep forever";
    let good = json!({"sysctls": [sysctl("net/ipv4/ip_unprivileged_port_start", "7"), sysctl("net.core.somaxconn", "300")]});
    node.write("good.json", &with(pod("good", [container("main", steps)]), "/spec/securityContext", good))?;
    let (reason, message) = refused(&node, "bad").await?;
    ensure!(reason == "SysctlForbidden", "{reason}");
    ensure!(message == "Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted", "{message}");
    node.wait_running("good").await?;
    let log = node.log("good", "main").await?;
    ensure!(log == "7\n300\n", "{log}");
    ensure!(node.cri().sandboxes_of("bad-node-a").await?.is_empty(), "a refused pod has a sandbox");
    let status = node.api_pod("bad").await?.status.unwrap_or_default();
    ensure!(
        status.container_statuses.is_none() && status.conditions.unwrap_or_default().is_empty(),
        "more than a refusal is shown"
    );
    Ok(())
}

fn on_port(name: &str, label: &str) -> Value {
    let main =
        with(container("main", "sleep forever"), "/ports", json!([{"containerPort": 80, "hostPort": 28080}]));
    with(pod(name, [main]), "/metadata/labels", json!({"try": label}))
}

async fn host_port_belongs_to_one_pod_until_removal(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("first.json", &on_port("first", "1"))?;
    let first = node.wait_running("first").await?;
    node.write("second.json", &on_port("second", "1"))?;
    let (reason, message) = refused(&node, "second").await?;
    let expected = "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    ensure!((reason.as_str(), message.as_str()) == ("NodePorts", expected), "{reason}: {message}");

    // A new version of the first pod reuses its own port.
    node.write("first.json", &on_port("first", "2"))?;
    node.wait_pod("first", "is replaced", |pod| pod.uid != first.uid && pod.all_running()).await?;
    node.remove("first.json")?;
    node.wait_gone("first").await?;
    throughout("a rejected pod stays rejected", Duration::from_secs(3), async || {
        let (phase, _, _) = verdict(&node, "second").await?;
        ensure!(phase == "Failed", "{phase}");
        Ok(())
    })
    .await?;
    node.write("second.json", &on_port("second", "2"))?;
    let second = node.wait_running("second").await?;
    let id = node.only_running("second").await?.id;
    node.restart_agent().await?;
    let again = node.wait_running("second").await?;
    ensure!(again.uid == second.uid && node.only_running("second").await?.id == id, "{again:?}");
    Ok(())
}

/// Static pods are critical: when resources are short, they are rejected only after the search for a victim.
const NO_VICTIM: &str = "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources:";

async fn rejects_pods_over_max_pods(agent: Agent) -> Result<()> {
    let node = start(agent, json!({"maxPods": 1})).await?;
    node.write("first.json", &sleeper("first"))?;
    node.wait_running("first").await?;
    node.write("second.json", &sleeper("second"))?;
    let (reason, message) = refused(&node, "second").await?;
    ensure!(reason == "UnexpectedAdmissionError", "{reason}");
    ensure!(message == format!("{NO_VICTIM} [(res: pods, q: 1), ]"), "{message}");
    ensure!(node.wait_running("first").await?.container("main").restarts == 0, "the first pod was disturbed");
    Ok(())
}

async fn rejects_pods_over_node_resources(agent: Agent) -> Result<()> {
    let node = start(agent, json!({"kubeReserved": {"cpu": "100m"}})).await?;
    let asking = |name: &str, amounts: Value| {
        let main = with(container("main", "sleep forever"), "/resources", json!({"requests": amounts}));
        pod(name, [main])
    };
    let cpus = std::thread::available_parallelism()?.get();
    node.write("cpu.json", &asking("cpu", json!({"cpu": cpus.to_string()})))?;
    node.write("memory.json", &asking("memory", json!({"memory": "100Ti"})))?;
    node.write("small.json", &asking("small", json!({"cpu": "1m", "memory": "1Mi"})))?;
    node.wait_running("small").await?;
    let (reason, message) = refused(&node, "cpu").await?;
    ensure!(reason == "UnexpectedAdmissionError" && message.starts_with(NO_VICTIM), "{reason}: {message}");
    ensure!(message.contains("(res: cpu, q: 10"), "{message}");
    let (_, message) = refused(&node, "memory").await?;
    ensure!(message.contains("(res: memory, q: "), "{message}");
    Ok(())
}

async fn rejects_pods_whose_node_selector_does_not_match(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let selecting =
        |name: &str, key: &str, value: &str| with(sleeper(name), "/spec/nodeSelector", json!({key: value}));
    node.write("here.json", &selecting("here", "kubernetes.io/os", "linux"))?;
    node.write("there.json", &selecting("there", "disk", "tape"))?;
    node.wait_running("here").await?;
    let (reason, message) = refused(&node, "there").await?;
    let expected =
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    ensure!((reason.as_str(), message.as_str()) == ("NodeAffinity", expected), "{reason}: {message}");
    Ok(())
}

async fn critical_pod_preempts_less_important_one(agent: Agent) -> Result<()> {
    let node = start(agent, json!({"maxPods": 1})).await?;
    let ranked = |name: &str, arguments: &str, priority: i32| {
        let pod = with(pod(name, [container("main", arguments)]), "/spec/priority", json!(priority));
        with(pod, "/spec/terminationGracePeriodSeconds", json!(2))
    };
    node.write("low.json", &ranked("low", "sleep forever --ignore-term", 1))?;
    node.wait_running("low").await?;
    node.write("high.json", &ranked("high", "sleep forever", 2))?;
    node.wait_running("high").await?;
    node.wait_pod("low", "ended", |pod| pod.phase == "Failed").await?;
    let (_, reason, message) = verdict(&node, "low").await?;
    ensure!(
        reason == "Preempting" && message == "Preempted in order to admit critical pod",
        "{reason}: {message}"
    );
    // The resources must be free first: the low pod used its grace period of two seconds before the high one started.
    let (status, ended) = eventually("the end of low is reported", Duration::from_secs(30), async || {
        ensure!(node.running("low").await?.is_empty(), "it still runs");
        let status = node.api_pod("low").await?.status.unwrap_or_default();
        let states = status.container_statuses.iter().flatten().filter_map(|one| one.state.as_ref());
        let end = states.filter_map(|state| state.terminated.as_ref()?.finished_at.as_ref()).next();
        let end = end.context("it does not terminate")?.0.as_nanosecond();
        Ok((status, end))
    })
    .await?;
    let high = node.cri().sandboxes_of("high-node-a").await?.pop().context("the sandbox of high")?;
    ensure!(
        i128::from(high.created_at) >= ended,
        "high was begun at {}, low ended at {ended}",
        high.created_at
    );
    let disrupted =
        status.conditions.unwrap_or_default().into_iter().find(|entry| entry.type_ == "DisruptionTarget");
    let reason = disrupted.and_then(|condition| condition.reason);
    ensure!(reason.as_deref() == Some("TerminationByKubelet"), "{reason:?}");

    // A preempted pod that exits with 0 has succeeded.
    node.remove("low.json")?;
    node.remove("high.json")?;
    node.wait_gone("high").await?;
    let willing = with(ranked("willing", "sleep forever --exit 0", 1), "/spec/restartPolicy", json!("Never"));
    node.write("willing.json", &willing)?;
    node.wait_running("willing").await?;
    node.write("higher.json", &ranked("higher", "sleep forever", 2))?;
    node.wait_running("higher").await?;
    node.wait_pod("willing", "ended", |pod| pod.phase == "Succeeded").await?;
    let status = node.api_pod("willing").await?.status.unwrap_or_default();
    ensure!(status.reason.is_none(), "{:?}", status.reason);
    let disrupted = status.conditions.iter().flatten().any(|entry| entry.type_ == "DisruptionTarget");
    ensure!(disrupted, "its disruption is not reported: {:?}", status.conditions);
    Ok(())
}
