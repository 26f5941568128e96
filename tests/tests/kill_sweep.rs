//! The agent is killed at many points of starts, restarts and terminations.
//!
//! The delays cover the observed duration of the step. `PODWARD_SWEEP` sets the number of points (default 12).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, Node, container, pod, scenarios, sleeper, with};
use serde_json::{Value, json};
use testkit::cri_view::ContainerView;
use testkit::poll::eventually;

scenarios!(
    agent_killed_during_start,
    agent_killed_during_restart,
    agent_killed_during_termination,
    agent_killed_during_pod_completion
);

fn points() -> u32 {
    std::env::var("PODWARD_SWEEP").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

/// Delays from 0 to slightly more than `whole`.
fn delays(whole: Duration) -> impl Iterator<Item = (u32, Duration)> {
    let count = points();
    (0..count).map(move |point| (point, whole * 11 * point / (10 * count)))
}

fn two_containers(name: &str) -> Value {
    pod(name, [container("a", "sleep forever"), container("b", "sleep forever")])
}

async fn agent_killed_during_start(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let start = Instant::now();
    node.write("first.json", &two_containers("first"))?;
    node.wait_running("first").await?;
    let whole = start.elapsed();
    let mut names = vec!["first".to_owned()];
    for (point, delay) in delays(whole) {
        let name = format!("pod-{point}");
        node.write(&format!("{name}.json"), &two_containers(&name))?;
        tokio::time::sleep(delay).await;
        let restarted = Instant::now();
        node.restart_agent().await?;
        let pod = node.wait_running(&name).await?;
        for container in &pod.containers {
            let counted = counted_stillborn(&node, &name, &container.name).await?;
            ensure!(
                container.restarts == counted,
                "killed after {delay:?}: {counted} counted that never ran, {pod:?}"
            );
        }
        println!("killed after {delay:?}: running again {:?} after the restart", restarted.elapsed());
        names.push(name);
    }
    for name in &names {
        expect_started_once(&node, name).await?;
    }
    Ok(())
}

async fn agent_killed_during_restart(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("first.json", &sleeper("first"))?;
    node.wait_running("first").await?;
    let start = Instant::now();
    kill_main(&node, "first").await?;
    wait_restarted(&node, "first").await?;
    let whole = start.elapsed();
    for (point, delay) in delays(whole) {
        let name = format!("pod-{point}");
        node.write(&format!("{name}.json"), &sleeper(&name))?;
        node.wait_running(&name).await?;
        kill_main(&node, &name).await?;
        tokio::time::sleep(delay).await;
        node.restart_agent().await?;
        wait_restarted(&node, &name).await.with_context(|| format!("killed after {delay:?}"))?;
        let sandboxes = node.cri().sandboxes_of(&format!("{name}-node-a")).await?;
        ensure!(sandboxes.len() == 1, "{} sandboxes", sandboxes.len());
    }
    Ok(())
}

async fn agent_killed_during_termination(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    node.write("bystander.json", &sleeper("bystander"))?;
    node.write("first.json", &two_containers("first"))?;
    node.wait_running("bystander").await?;
    node.wait_running("first").await?;
    let bystander = node.only_running("bystander").await?;
    let start = Instant::now();
    node.remove("first.json")?;
    node.wait_gone("first").await?;
    let whole = start.elapsed();
    for (point, delay) in delays(whole) {
        let name = format!("pod-{point}");
        node.write(&format!("{name}.json"), &two_containers(&name))?;
        node.wait_running(&name).await?;
        node.remove(&format!("{name}.json"))?;
        tokio::time::sleep(delay).await;
        node.restart_agent().await?;
        node.wait_gone(&name).await.with_context(|| format!("killed after {delay:?}"))?;
        let started = node.cri().containers_of(&format!("{name}-node-a")).await?;
        ensure!(started.iter().all(|view| view.attempt == 0), "restarted while terminating: {started:?}");
    }
    ensure!(node.only_running("bystander").await?.id == bystander.id, "a bystander was restarted");
    let root = node.agent.root().join("pods");
    eventually("only one pod folder is left", Duration::from_secs(30), async || {
        let left = std::fs::read_dir(&root)?.count();
        ensure!(left == 1, "{left} are left");
        Ok(())
    })
    .await
}

/// A pod with restart policy Never terminates while the agent is killed and restarted.
async fn agent_killed_during_pod_completion(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    for (point, delay) in delays(Duration::from_secs(2)) {
        let name = format!("pod-{point}");
        let manifest = pod(&name, [container("main", "exit 9 --after 1")]);
        node.write(&format!("{name}.json"), &with(manifest, "/spec/restartPolicy", json!("Never")))?;
        tokio::time::sleep(delay).await;
        node.restart_agent().await?;
        let pod = node.wait_pod(&name, "fails", |pod| pod.phase == "Failed").await?;
        let main = pod.container("main");
        let counted = counted_stillborn(&node, &name, "main").await?;
        // Podward does not count it.
        let cut = counted == 1 && main.exit_code == Some(128) && main.restarts == 0;
        if cut {
            // The kill interrupted the start call: the runtime reports a failed start, and the policy is Never. Podward
            // distinguishes the two and starts the container again.
            continue;
        }
        ensure!(main.exit_code == Some(9), "killed after {delay:?}: {pod:?}");
        ensure!(
            main.restarts == counted,
            "killed after {delay:?}: {counted} counted that never ran, {pod:?}"
        );
        let views = node.cri().containers_of(&format!("{name}-node-a")).await?;
        let started = views.iter().filter(|view| view.started_at > 0).count();
        ensure!(started == 1, "killed after {delay:?}: started {started} times: {views:?}");
    }
    Ok(())
}

async fn kill_main(node: &Node, name: &str) -> Result<()> {
    let main = node.only_running(name).await?;
    testkit::instance::kill(node.cri().pid(&main.id).await?, Signal::KILL)
}

async fn wait_restarted(node: &Node, name: &str) -> Result<()> {
    let once = node
        .wait_pod(name, "runs again", |pod| pod.all_running() && pod.container("main").restarts >= 1)
        .await?;
    let main = once.container("main");
    let counted = counted_stillborn(node, name, "main").await?;
    ensure!(main.exit_code == Some(137) || counted > 0, "{once:?}");
    ensure!(main.restarts == 1 + counted, "{counted} counted that never ran, {once:?}");
    let running = node.only_running(name).await?;
    let (shown, real) = (main.restarts, i32::try_from(running.attempt)?);
    ensure!(shown == real, "restart count {shown}, attempt {real}");
    Ok(())
}

/// Number of containers of that name that never ran but count as restarts: the kill happened between their creation and
/// their start, or interrupted the start call, which containerd then undoes. Upstream creates and counts another one;
/// podward must not.
async fn counted_stillborn(node: &Node, name: &str, container: &str) -> Result<i32> {
    if node.agent.kind() == Agent::Podward {
        return Ok(0);
    }
    let views = node.cri().containers_of(&format!("{name}-node-a")).await?;
    let count = views.iter().filter(|view| view.name == container && view.started_at == 0).count();
    Ok(i32::try_from(count)?)
}

/// Checks that there is one ready sandbox, and that no container was started twice.
async fn expect_started_once(node: &Node, name: &str) -> Result<()> {
    let full = format!("{name}-node-a");
    let sandboxes = node.cri().sandboxes_of(&full).await?;
    let ready = sandboxes.iter().filter(|sandbox| sandbox.ready).count();
    ensure!(ready == 1, "{name}: {sandboxes:?}");
    let views = node.cri().containers_of(&full).await?;
    for container in ["a", "b"] {
        let own = views.iter().filter(|view| view.name == container);
        let (running, started) = own.fold((0, 0), |(running, started), view: &ContainerView| {
            (running + u32::from(view.running()), started + u32::from(view.started_at > 0))
        });
        ensure!(
            running == 1 && started == 1,
            "{name}/{container}: {running} run, {started} started: {views:?}"
        );
    }
    Ok(())
}
