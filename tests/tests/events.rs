//! CRI events, on containerd 2.x.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, Node, podward_only, scenarios, sleeper};
use testkit::instance::kill;
use testkit::poll::eventually;

scenarios!(pods_run_on_containerd_2);

podward_only!(container_exit_is_detected_by_event, reconnects_after_event_stream_ends);

async fn pods_run_on_containerd_2(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    restart_delay(&node, "web", 1).await?;
    node.remove("web.json")?;
    node.wait_gone("web").await
}

/// Detected by an event, without waiting for a relist. `make bench` measures the latency.
async fn container_exit_is_detected_by_event(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    wait_followed(&node, 1).await?;
    expect_noticed_without_lists(&node, "pod").await
}

async fn reconnects_after_event_stream_ends(agent: Agent) -> Result<()> {
    let mut node = Node::start_on_containerd_2(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    wait_followed(&node, 1).await?;
    node.runtime.kill()?;
    node.agent
        .wait_log("runtime event stream failed, falling back to polling", Duration::from_secs(60))
        .await?;
    node.runtime.resume().await?;
    let delay = restart_delay(&node, "web", 1).await?;
    println!("right after the cut: {delay:?}");
    // The agent may poll for a while before it uses events again.
    wait_followed(&node, 2).await?;
    expect_noticed_without_lists(&node, "later").await
}

/// Waits until the agent has opened the event stream this many times.
async fn wait_followed(node: &Node, times: usize) -> Result<()> {
    eventually("the event stream is followed", Duration::from_secs(60), async || {
        let opened = counter(node, "kubelet_evented_pleg_connection_success_count").await?;
        ensure!(opened >= times, "opened {opened} times");
        Ok(())
    })
    .await
}

/// Kills the only container of several pods once. Without events, each exit would need a relist to be detected.
async fn expect_noticed_without_lists(node: &Node, prefix: &str) -> Result<()> {
    const DEATHS: usize = 7;
    let names: Vec<String> = (0..DEATHS).map(|number| format!("{prefix}-{number}")).collect();
    for name in &names {
        node.write(&format!("{name}.json"), &sleeper(name))?;
        node.wait_running(name).await?;
    }
    let start = Instant::now();
    let before = counter(node, LISTS).await?;
    let mut delays = Vec::new();
    for name in &names {
        delays.push(restart_delay(node, name, 1).await?);
    }
    let lists = counter(node, LISTS).await? - before;
    println!("kill to new container: {delays:?}, {lists} lists");
    // One relist that was due or in progress, and one per minute.
    let due = 1 + usize::try_from(start.elapsed().as_secs() / 60)?;
    ensure!(lists <= due, "{lists} lists for {DEATHS} deaths: {delays:?}");
    Ok(())
}

const LISTS: &str = "kubelet_pleg_relist_duration_seconds_count";

async fn counter(node: &Node, name: &str) -> Result<usize> {
    let page = node.agent.page("/metrics").await?;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.with_context(|| format!("{name} is not shown"))?;
    value.parse().with_context(|| format!("{name} is {value}"))
}

/// Time from the kill to the creation of the next container, by the runtime's clock.
async fn restart_delay(node: &Node, name: &str, restarts: i32) -> Result<Duration> {
    let old = node.only_running(name).await?;
    let pid = node.cri().pid(&old.id).await?;
    let killed = jiff::Timestamp::now().as_nanosecond();
    kill(pid, Signal::KILL)?;
    node.wait_pod(name, "runs again", |pod| pod.all_running() && pod.container("main").restarts == restarts)
        .await?;
    let new = node.only_running(name).await?;
    let delay = i128::from(new.created_at) - killed;
    Ok(Duration::from_nanos(u64::try_from(delay).context("the new container is older than the kill")?))
}
