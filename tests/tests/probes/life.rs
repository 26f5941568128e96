use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::json;
use testkit::poll::eventually;

use crate::server_health::{ServerHealth, page, probe};

scenarios!(readiness_probe_runs_during_termination, timed_out_exec_probe_leaves_no_process);

async fn readiness_probe_runs_during_termination(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let probes = [
        ("readinessProbe", probe(&page("/ready"), &json!({}))),
        ("livenessProbe", probe(&page("/live"), &json!({}))),
    ];
    let manifest = server_health.pod("web", "serve --linger 8", &probes);
    node.write("web.json", &with(manifest, "/spec/terminationGracePeriodSeconds", json!(20)))?;
    node.wait_pod("web", "is ready", |pod| pod.container("main").ready).await?;
    eventually("liveness probe is called", Duration::from_secs(60), async || {
        ensure!(node.log("web", "main").await?.contains("request /live from kube-probe/1.36"), "not yet");
        Ok(())
    })
    .await?;
    node.remove("web.json")?;
    // Stored, because the log is removed with the pod.
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
    let requested =
        |path: &str| after.lines().filter(|line| line.starts_with(&format!("request {path} "))).count();
    // Upstream should continue as well, but it loses the status of a pod that left its folder within two seconds, and
    // without a status it does not probe.
    let least = if agent == Agent::Podward { 3 } else { 0 };
    ensure!(requested("/ready") >= least, "readiness probed {} times in {last}", requested("/ready"));
    // One may have been in progress.
    ensure!(requested("/live") <= 1, "liveness probed {} times in {last}", requested("/live"));
    Ok(())
}

async fn timed_out_exec_probe_leaves_no_process(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    // A duration that no other process on this machine sleeps for.
    let time = format!("1{:06}", std::process::id());
    let handler = json!({"exec": {"command": ["/demo", "sleep", time, "--ignore-term"]}});
    let readiness = probe(&handler, &json!({"timeoutSeconds": 1, "periodSeconds": 2}));
    node.write("web.json", &server_health.pod("web", "sleep forever", &[("readinessProbe", readiness)]))?;
    let pod = node.wait_running("web").await?;
    ensure!(!pod.container("main").ready, "{pod:?}");
    let (mut begun, mut most, mut before) = (0, 0, 0);
    let watch = std::time::Instant::now();
    while begun < 4 {
        ensure!(watch.elapsed() < Duration::from_secs(120), "probed {begun} times");
        let now = sleepers(&time)?;
        begun += now.saturating_sub(before);
        (most, before) = (most.max(now), now);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ensure!(most <= 2, "{most} commands at once");
    Ok(())
}

/// Number of processes whose command line contains this argument.
fn sleepers(argument: &str) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // Excludes programs that only pass it on: they have other arguments before it.
        count += usize::from(
            line.starts_with(b"/demo\0sleep\0")
                && line.windows(argument.len()).any(|part| part == argument.as_bytes()),
        );
    }
    Ok(count)
}
