//! On a containerd that has CRI events (2.x).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, Node, podward_only, scenarios, sleeper};
use testkit::instance::kill;

scenarios!(pods_run_on_containerd_2);

podward_only!(death_is_noticed_at_once, a_cut_stream_is_survived);

async fn pods_run_on_containerd_2(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    restart_delay(&node, "web", 1).await?;
    node.remove("web.json")?;
    node.wait_gone("web").await
}

async fn death_is_noticed_at_once(agent: Agent) -> Result<()> {
    let node = Node::start_on_containerd_2(agent).await?;
    let delays = first_restarts(&node, "pod").await?;
    println!("kill to new container: {delays:?}");
    // Creation follows the notice, so the bound is wider than the notice itself; polling each second
    // would give half a second in the middle.
    let middle = delays.get(delays.len() / 2).copied().context("delays")?;
    ensure!(middle < Duration::from_millis(300), "{delays:?}");
    Ok(())
}

async fn a_cut_stream_is_survived(agent: Agent) -> Result<()> {
    let mut node = Node::start_on_containerd_2(agent).await?;
    node.write("web.json", &sleeper("web"))?;
    node.wait_running("web").await?;
    node.containerd.kill()?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.containerd.resume().await?;
    let delay = restart_delay(&node, "web", 1).await?;
    println!("right after the cut: {delay:?}");
    // The agent may poll for a while; then events count again.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let delays = first_restarts(&node, "later").await?;
    println!("after recovery: {delays:?}");
    let middle = delays.get(delays.len() / 2).copied().context("delays")?;
    ensure!(middle < Duration::from_millis(300), "{delays:?}");
    Ok(())
}

/// Kills the only container of several pods once; the sorted times to their new containers.
async fn first_restarts(node: &Node, prefix: &str) -> Result<Vec<Duration>> {
    let mut delays = Vec::new();
    for number in 0..7 {
        let name = format!("{prefix}-{number}");
        node.write(&format!("{name}.json"), &sleeper(&name))?;
        node.wait_running(&name).await?;
        delays.push(restart_delay(node, &name, 1).await?);
    }
    delays.sort();
    Ok(delays)
}

/// From the kill to the creation of the next container, by the runtime's clock.
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
