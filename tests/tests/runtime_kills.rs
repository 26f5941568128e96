//! The agent with the runtime inside, and keepers of its pods, are killed at random moments of pods' lives: nothing is left
//! of the pods afterwards.
//!
//! `PODWARD_KILLS` sets the number of pods (default 12; 200 before a release), `PODWARD_SEED` repeats a run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use scenarios::{Agent, AgentOptions, Node, container, pod, podward_only, with};
use serde_json::{Value, json};
use testkit::instance::kill;
use testkit::node_runtime::{NodeRuntime, RuntimeKind};
use testkit::poll::eventually;
use testkit::remains;

podward_only!(killed_agents_and_keepers_leave_nothing);

/// Containers of removed pods are collected once a minute.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Xorshift; the seed is printed.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let given = std::env::var("PODWARD_SEED").ok().and_then(|seed| seed.parse().ok());
        // Differs from run to run.
        let started = || testkit::process::start_ticks(std::process::id()).unwrap_or(1);
        let seed = given.unwrap_or_else(started).max(1);
        println!("PODWARD_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn milliseconds(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }
}

fn cycles() -> u64 {
    std::env::var("PODWARD_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

/// Pods of different kinds, which use different parts of the runtime.
fn manifest(number: u64) -> Value {
    let name = format!("pod-{number}");
    let two = pod(&name, [container("a", "sleep forever"), container("b", "sleep forever")]);
    match number % 4 {
        0 => two,
        1 => {
            let ports = json!([{"containerPort": 8080, "hostPort": 18090 + number % 100}]);
            with(pod(&name, [container("a", "serve")]), "/spec/containers/0/ports", ports)
        }
        2 => {
            let volumes =
                json!([{"name": "x", "emptyDir": {"medium": "Memory"}}, {"name": "y", "emptyDir": {}}]);
            let mounts = json!([{"name": "x", "mountPath": "/x"}, {"name": "y", "mountPath": "/y"}]);
            with(with(two, "/spec/volumes", volumes), "/spec/containers/0/volumeMounts", mounts)
        }
        _ => with(two, "/spec/shareProcessNamespace", json!(true)),
    }
}

async fn killed_agents_and_keepers_leave_nothing(agent: Agent) -> Result<()> {
    let runtime = NodeRuntime::start(RuntimeKind::Inside).await?;
    let mut node = Node::on(runtime, agent, &AgentOptions::default())?;
    node.agent.start()?;
    node.agent.wait_ready().await?;
    // Makes what all pods share: the bridge, the table, folders.
    node.write("first.json", &manifest(1))?;
    node.wait_running("pod-1").await?;
    node.remove("first.json")?;
    node.wait_gone("pod-1").await?;
    wait_collected(&node).await?;
    let before = remains::of_pods(node.runtime.instance())?;

    let mut random = Random::new();
    for number in 0..cycles() {
        let (name, file) = (format!("pod-{number}"), format!("{number}.json"));
        node.write(&file, &manifest(number))?;
        strike(&mut node, &mut random).await?;
        node.wait_running(&name)
            .await
            .with_context(|| format!("pod {number} after a kill during its start"))?;
        node.remove(&file)?;
        strike(&mut node, &mut random).await?;
        node.wait_gone(&name).await.with_context(|| format!("pod {number} after a kill during its end"))?;
    }
    wait_collected(&node).await?;
    eventually("everything of the pods is gone", TIMEOUT, async || {
        let after = remains::of_pods(node.runtime.instance())?;
        let left: Vec<_> = after.difference(&before).collect();
        ensure!(left.is_empty(), "{left:#?}");
        Ok(())
    })
    .await
}

/// Waits a moment and kills the agent, a keeper, or both.
async fn strike(node: &mut Node, random: &mut Random) -> Result<()> {
    tokio::time::sleep(random.milliseconds(400)).await;
    let victims = random.below(4);
    if victims != 1 {
        node.agent.kill9()?;
    }
    if victims != 0 {
        let keepers = remains::keepers(node.runtime.instance());
        let chosen = random.below(u64::try_from(keepers.len().max(1))?);
        if let Some(keeper) = keepers.get(usize::try_from(chosen)?) {
            // It may have ended meanwhile.
            let _ = kill(*keeper, Signal::KILL);
        }
    }
    tokio::time::sleep(random.milliseconds(100)).await;
    if victims != 1 {
        node.agent.start()?;
        node.agent.wait_ready().await?;
    }
    Ok(())
}

async fn wait_collected(node: &Node) -> Result<()> {
    eventually("the runtime has no sandbox", TIMEOUT, async || {
        let sandboxes = node.cri().sandboxes().await?;
        ensure!(sandboxes.is_empty(), "{} are left", sandboxes.len());
        let folders = std::fs::read_dir(node.agent.root().join("pods"))?.count();
        ensure!(folders == 0, "{folders} folders of pods are left");
        Ok(())
    })
    .await
}
