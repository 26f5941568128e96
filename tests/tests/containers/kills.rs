//! The agent is killed while init containers and hooks run. `PODWARD_SWEEP` sets the number of points in time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, Node, podward_only, scenarios};
use serde_json::{Value, json};

use crate::diary::{Diary, plus, sh, sidecar, writer};

scenarios!(agent_killed_during_init_containers_and_hooks);
podward_only!(agent_killed_during_termination_with_hooks);

fn points() -> u32 {
    std::env::var("PODWARD_SWEEP").ok().and_then(|count| count.parse().ok()).unwrap_or(6)
}

fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

fn manifest(diary: &Diary, name: &str) -> Value {
    let init = [
        sh("one", "sleep 0.3; echo one-done >> /d/diary"),
        sidecar(writer("side")),
        sh("two", "sleep 0.3; echo two-done >> /d/diary"),
    ];
    let hooks = json!({"lifecycle": {
        "postStart": exec("sleep 0.5; echo hook >> /d/diary"),
        "preStop": exec("echo bye >> /d/diary; sleep 0.5")}});
    diary.pod(name, init, [plus(writer("main"), &hooks), writer("last")])
}

/// The pod starts in order, and completed steps are not repeated, whenever the agent is killed.
async fn agent_killed_during_init_containers_and_hooks(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let first = Diary::new(&node, "first")?;
    let start = Instant::now();
    node.write("first.json", &manifest(&first, "first"))?;
    node.wait_running("first").await?;
    let whole = start.elapsed();
    for point in 0..points() {
        let name = format!("pod-{point}");
        let diary = Diary::new(&node, &name)?;
        node.write(&format!("{name}.json"), &manifest(&diary, &name))?;
        tokio::time::sleep(whole * point / points()).await;
        node.restart_agent().await?;
        node.wait_running(&name).await.with_context(|| format!("{name}: {:?}", diary.lines()))?;
        diary.wait_for("last").await?;
        let lines = diary.lines();
        let at = |what: &str| lines.iter().position(|line| line == what);
        let order = [at("one-done"), at("side"), at("two-done"), at("main"), at("last")];
        ensure!(order.iter().all(Option::is_some) && order.is_sorted(), "{name}: {lines:?}");
        let last = |what: &str| lines.iter().rposition(|line| line == what);
        ensure!(last("one-done") < at("side") && last("two-done") < at("main"), "{name}: {lines:?}");
    }
    Ok(())
}

/// The pod terminates and runs its hook. Upstream, killed before it observed the removal of the manifest, loses the pod
/// and kills its processes at once.
async fn agent_killed_during_termination_with_hooks(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    for point in 0..points() {
        let name = format!("pod-{point}");
        let diary = Diary::new(&node, &name)?;
        node.write(&format!("{name}.json"), &manifest(&diary, &name))?;
        node.wait_running(&name).await?;
        node.remove(&format!("{name}.json"))?;
        tokio::time::sleep(Duration::from_millis(1500) * point / points()).await;
        node.restart_agent().await?;
        node.wait_gone(&name).await?;
        let lines = diary.lines();
        let at = |what: &str| lines.iter().position(|line| line == what);
        ensure!(at("main-end").is_some() && at("last-end").is_some(), "{name}: {lines:?}");
        ensure!(at("bye") < at("main-end"), "{name}: {lines:?}");
        let started = lines.iter().filter(|line| *line == "main").count();
        ensure!(started == 1, "{name}: restarted while it should end: {lines:?}");
    }
    Ok(())
}
