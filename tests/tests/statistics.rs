//! Checks that both agents report the same structure for the same pods: every field of `/stats/summary`, every family
//! of `/metrics/resource`. `make compare-metrics` compares values.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, with};
use serde_json::{Value, json};
use testkit::poll::eventually;

scenarios!(summary_and_resource_metrics_match_upstream_structure);

const TIMEOUT: Duration = Duration::from_secs(90);

/// Fields of a pod with one container that has limits.
const POD_FIELDS: [&str; 11] = [
    "containers",
    "cpu",
    "ephemeral-storage",
    "io",
    "memory",
    "network",
    "podRef",
    "process_stats",
    "startTime",
    "swap",
    "volume",
];
const CONTAINER_FIELDS: [&str; 8] = ["cpu", "io", "logs", "memory", "name", "rootfs", "startTime", "swap"];
const NODE_FIELDS: [&str; 11] = [
    "cpu",
    "fs",
    "io",
    "memory",
    "network",
    "nodeName",
    "rlimit",
    "runtime",
    "startTime",
    "swap",
    "systemContainers",
];
const CPU_FIELDS: [&str; 4] = ["psi", "time", "usageCoreNanoSeconds", "usageNanoCores"];
const MEMORY_FIELDS: [&str; 8] = [
    "availableBytes",
    "majorPageFaults",
    "pageFaults",
    "psi",
    "rssBytes",
    "time",
    "usageBytes",
    "workingSetBytes",
];
const FAMILIES: [&str; 12] = [
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "container_start_time_seconds",
    "container_swap_limit_bytes",
    "container_swap_usage_bytes",
    "node_cpu_usage_seconds_total",
    "node_memory_working_set_bytes",
    "node_swap_usage_bytes",
    "pod_cpu_usage_seconds_total",
    "pod_memory_working_set_bytes",
    "pod_swap_usage_bytes",
    "resource_scrape_error",
];

async fn summary_and_resource_metrics_match_upstream_structure(agent: Agent) -> Result<()> {
    let mut node = Node::prepare(agent, &AgentOptions::default()).await?;
    node.configure(agent, &options(agent, &node))?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    node.write("web.json", &limited())?;
    node.write(
        "pair.json",
        &pod("pair", [container("a", "sleep forever"), container("b", "sleep forever")]),
    )?;
    node.wait_running("web").await?;
    node.wait_running("pair").await?;

    eventually("statistics of both pods", TIMEOUT, async || complete(&summary(&node, "").await?)).await?;
    let found = summary(&node, "").await?;
    let (web, pair) = (find(&found, "web")?, find(&found, "pair")?);
    same("a pod", web, &POD_FIELDS)?;
    same("a container", at(web, "/containers/0")?, &CONTAINER_FIELDS)?;
    same("the node", at(&found, "/node")?, &NODE_FIELDS)?;
    same("CPU", at(web, "/containers/0/cpu")?, &CPU_FIELDS)?;
    same("memory", at(web, "/containers/0/memory")?, &MEMORY_FIELDS)?;
    ensure!(
        web.pointer("/podRef/uid") == Some(&json!(node.pod("web").await?.uid)),
        "the UID is the manifest's hash"
    );
    ensure!(at(pair, "/containers")?.as_array().is_some_and(|list| list.len() == 2), "two containers");
    ensure!(at(web, "/volume/0/name")? == "data" && at(web, "/network/name")? == "eth0");
    let short = summary(&node, "?only_cpu_and_memory=true").await?;
    same(
        "a short pod",
        find(&short, "web")?,
        &["containers", "cpu", "memory", "podRef", "startTime", "swap"],
    )?;

    let page = node.agent.page("/metrics/resource").await?;
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let names: BTreeSet<&str> = lines.clone().filter_map(|line| line.split(['{', ' ']).next()).collect();
    ensure!(names == FAMILIES.into_iter().collect(), "families: {names:?}");
    let cpu =
        "container_cpu_usage_seconds_total{container=\"main\",namespace=\"default\",pod=\"web-node-a\"} ";
    let reported = lines.clone().find_map(|line| line.strip_prefix(cpu)).context("CPU of the container")?;
    ensure!(reported.split(' ').count() == 2, "value and time: {reported}");
    let start = lines.clone().find(|line| line.starts_with("container_start_time_seconds"));
    ensure!(start.is_some_and(|line| line.split("} ").nth(1).is_some_and(|rest| !rest.contains(' '))));
    let cadvisor = node.agent.page("/metrics/cadvisor").await?;
    let working_set = cadvisor.lines().find(|line| {
        line.starts_with("container_memory_working_set_bytes{container=\"main\",id=\"/")
            && line.contains("image=\"podward.test/demo:1\"")
            && line.contains("namespace=\"default\",pod=\"web-node-a\"}")
    });
    ensure!(working_set.is_some(), "the container's working set");
    Ok(())
}

/// Settings with which upstream finds the containers of our runtime; volumes are measured often.
fn options(agent: Agent, node: &Node) -> AgentOptions {
    let socket = node.runtime.instance().socket();
    let arguments = match agent {
        Agent::Upstream => vec![format!("--containerd={}", socket.display())],
        Agent::Podward => Vec::new(),
    };
    AgentOptions { overlay: json!({"volumeStatsAggPeriod": "3s"}), arguments, ..AgentOptions::default() }
}

fn limited() -> Value {
    let resources = json!({"limits": {"cpu": "100m", "memory": "32Mi"}});
    let mut main = with(container("main", "sleep forever"), "/resources", resources);
    main = with(main, "/volumeMounts", json!([{"name": "data", "mountPath": "/data"}]));
    with(pod("web", [main]), "/spec/volumes", json!([{"name": "data", "emptyDir": {}}]))
}

async fn summary(node: &Node, query: &str) -> Result<Value> {
    let text = node.agent.page(&format!("/stats/summary{query}")).await?;
    serde_json::from_str(&text).context("parse /stats/summary")
}

/// Samples arrive one after the other; fails until all of them are present.
fn complete(summary: &Value) -> Result<()> {
    for name in ["web", "pair"] {
        let pod = find(summary, name)?;
        for path in ["/cpu/usageNanoCores", "/memory/rssBytes", "/network/interfaces/0", "/ephemeral-storage"]
        {
            at(pod, path)?;
        }
        for container in at(pod, "/containers")?.as_array().into_iter().flatten() {
            for path in ["/cpu/usageNanoCores", "/memory/psi", "/rootfs/usedBytes", "/logs/usedBytes"] {
                at(container, path)?;
            }
        }
    }
    at(find(summary, "web")?, "/volume/0")?;
    at(summary, "/node/systemContainers/0")?;
    Ok(())
}

fn find<'a>(summary: &'a Value, name: &str) -> Result<&'a Value> {
    let full = format!("{name}-node-a");
    let pods = summary.get("pods").and_then(Value::as_array).into_iter().flatten();
    let named = |pod: &&Value| pod.pointer("/podRef/name") == Some(&json!(full));
    pods.into_iter().find(named).with_context(|| format!("no statistics of {full}"))
}

fn at<'a>(value: &'a Value, pointer: &str) -> Result<&'a Value> {
    value.pointer(pointer).with_context(|| format!("no {pointer}"))
}

fn same(what: &str, value: &Value, expected: &[&str]) -> Result<()> {
    let found: BTreeSet<&str> =
        value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    ensure!(found == expected.iter().copied().collect(), "{what} has {found:?}, not {expected:?}");
    Ok(())
}
