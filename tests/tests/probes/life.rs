use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::json;
use testkit::poll::eventually;

use crate::mood::{Mood, page, probe};

scenarios!(readiness_is_asked_while_the_pod_stops, a_command_that_runs_too_long_leaves_no_process);

async fn readiness_is_asked_while_the_pod_stops(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mood = Mood::new(&node, "web")?;
    let probes = [
        ("readinessProbe", probe(&page("/ready"), &json!({}))),
        ("livenessProbe", probe(&page("/live"), &json!({}))),
    ];
    let manifest = mood.pod("web", "serve --linger 8", &probes);
    node.write("web.json", &with(manifest, "/spec/terminationGracePeriodSeconds", json!(20)))?;
    node.wait_pod("web", "is ready", |pod| pod.container("main").ready).await?;
    eventually("liveness is asked", Duration::from_secs(60), async || {
        ensure!(node.log("web", "main").await?.contains("request /live from kube-probe/1.36"), "not yet");
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    // Kept, because the log goes with the pod.
    let mut last = String::new();
    let gone = std::time::Instant::now();
    while gone.elapsed() < Duration::from_secs(40) {
        match node.log("web", "main").await {
            Ok(log) if !log.is_empty() => last = log,
            _ => break,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let after = last.split_once("asked to stop\n").map(|(_, after)| after).unwrap_or_default();
    let asked =
        |path: &str| after.lines().filter(|line| line.starts_with(&format!("request {path} "))).count();
    // Upstream means to go on as well, but forgets the status of a pod that left its folder within two seconds, and
    // without a status it asks nothing.
    let least = if agent == Agent::Podward { 3 } else { 0 };
    ensure!(asked("/ready") >= least, "readiness asked {} times in {last}", asked("/ready"));
    // One may have been under way.
    ensure!(asked("/live") <= 1, "liveness asked {} times in {last}", asked("/live"));
    Ok(())
}

async fn a_command_that_runs_too_long_leaves_no_process(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let mood = Mood::new(&node, "web")?;
    // A number that no other process on this machine sleeps for.
    let time = format!("1{:06}", std::process::id());
    let asks = json!({"exec": {"command": ["/demo", "sleep", time, "--ignore-term"]}});
    let readiness = probe(&asks, &json!({"timeoutSeconds": 1, "periodSeconds": 2}));
    node.write("web.json", &mood.pod("web", "sleep forever", &[("readinessProbe", readiness)]))?;
    let pod = node.wait_running("web").await?;
    ensure!(!pod.container("main").ready, "{pod:?}");
    let (mut begun, mut most, mut before) = (0, 0, 0);
    let watch = std::time::Instant::now();
    while begun < 4 {
        ensure!(watch.elapsed() < Duration::from_secs(120), "asked {begun} times");
        let now = sleepers(&time)?;
        begun += now.saturating_sub(before);
        (most, before) = (most.max(now), now);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(most <= 2, "{most} commands at once");
    Ok(())
}

/// Processes whose command line holds this argument.
fn sleepers(argument: &str) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // Not the programs that are asked to run it: those carry it with other arguments before it.
        count += usize::from(
            line.starts_with(b"/demo\0sleep\0")
                && line.windows(argument.len()).any(|part| part == argument.as_bytes()),
        );
    }
    Ok(count)
}
