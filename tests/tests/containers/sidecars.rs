use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, scenarios, with};
use serde_json::json;
use testkit::poll::eventually;

use crate::diary::{Diary, init_status, plus, sh, sidecar, writer};

scenarios!(
    sidecars_start_in_order_and_stop_last_in_reverse,
    sidecar_restarts_while_regular_containers_run,
    sidecar_does_not_block_pod_completion,
    sidecar_stops_after_regular_containers_within_grace,
);

async fn sidecars_start_in_order_and_stop_last_in_reverse(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let init = [
        sidecar(writer("first")),
        sh("plain", "echo plain >> /d/diary"),
        // It takes a moment to start; later containers wait for its hook.
        plus(
            sidecar(writer("second")),
            &json!({"lifecycle": {
                "postStart": {"exec": {"command": ["sh", "-c", "sleep 1; echo second-started >> /d/diary"]}}}}),
        ),
    ];
    let main = sh(
        "main",
        "trap 'sleep 1; echo main-end >> /d/diary; exit 0' TERM; echo main >> /d/diary; sleep 1000 & wait",
    );
    let manifest = diary.pod("web", init, [main]);
    node.write("web.json", &with(manifest, "/spec/terminationGracePeriodSeconds", json!(20)))?;
    node.wait_running("web").await?;
    let up = ["first", "plain", "second", "second-started", "main"];
    diary.wait(&up).await?;
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    let expected = [&up[..], &["main-end", "second-end", "first-end"]].concat();
    ensure!(diary.lines() == expected, "{:?}", diary.lines());
    Ok(())
}

async fn sidecar_restarts_while_regular_containers_run(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let manifest = diary.pod("web", [sidecar(writer("side"))], [writer("main")]);
    node.write("web.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    let before = node.wait_running("web").await?;
    diary.wait(&["side", "main"]).await?;
    let running = node.running("web").await?;
    let side =
        running.iter().find(|view| view.name == "side").map(|view| view.id.clone()).unwrap_or_default();
    testkit::instance::kill(node.cri().pid(&side).await?, rustix::process::Signal::KILL)?;
    diary.wait(&["side", "main", "side"]).await?;
    eventually("the sidecar is shown as restarted", Duration::from_secs(30), async || {
        let status = init_status(&node, "web", "side").await?;
        ensure!(status.restart_count == 1 && status.started == Some(true), "{status:?}");
        Ok(())
    })
    .await?;
    let after = node.pod("web").await?;
    ensure!(after.container("main") == before.container("main") && after.phase == "Running", "{after:?}");
    Ok(())
}

async fn sidecar_does_not_block_pod_completion(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "job")?;
    let main = sh("main", "sleep 1; echo main >> /d/diary");
    let manifest = diary.pod("job", [sidecar(writer("side"))], [main]);
    node.write("job.json", &with(manifest, "/spec/restartPolicy", json!("Never")))?;
    let pod = node.wait_pod("job", "succeeds", |pod| pod.phase == "Succeeded").await?;
    ensure!(pod.container("main").exit_code == Some(0), "{pod:?}");
    diary.wait(&["side", "main", "side-end"]).await?;
    eventually("nothing runs", Duration::from_secs(30), async || {
        ensure!(node.running("job").await?.is_empty());
        Ok(())
    })
    .await
}

/// A regular container that ignores the stop signal uses up the grace period; the sidecar is stopped nevertheless.
async fn sidecar_stops_after_regular_containers_within_grace(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let diary = Diary::new(&node, "web")?;
    let deaf = |name: &str| sh(name, "trap '' TERM; while :; do sleep 1; done");
    // There are several: they are stopped in parallel.
    let regular: Vec<_> = (0..6).map(|number| deaf(&format!("deaf-{number}"))).collect();
    let manifest = diary.pod("web", [sidecar(writer("side"))], regular);
    node.write("web.json", &with(manifest, "/spec/terminationGracePeriodSeconds", json!(6)))?;
    node.wait_running("web").await?;
    let start = Instant::now();
    node.remove("web.json")?;
    node.wait_gone("web").await?;
    let took = start.elapsed();
    ensure!(took >= Duration::from_secs(6), "removed after {took:?}");
    ensure!(took < Duration::from_secs(36), "six containers stopped one after the other: {took:?}");
    ensure!(diary.lines() == ["side", "side-end"], "{:?}", diary.lines());
    Ok(())
}
