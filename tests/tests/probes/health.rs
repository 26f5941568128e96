use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, podward_only, scenarios};
use serde_json::{Value, json};
use testkit::poll::throughout;

use crate::server_health::{ServerHealth, file, page, probe, started};

scenarios!(
    every_probe_type_works_with_every_handler,
    readiness_follows_the_probe,
    failed_liveness_probe_kills_with_probe_grace_period,
    startup_probe_delays_other_probes,
    failed_startup_probe_kills_the_container,
);
podward_only!(ready_pods_stay_ready_after_agent_kill, probes_are_reported_in_events_and_metrics);

/// All three probes with the same handler.
fn all_kinds(handler: &Value) -> Vec<(&'static str, Value)> {
    let probe = probe(handler, &json!({}));
    ["startupProbe", "readinessProbe", "livenessProbe"].map(|kind| (kind, probe.clone())).to_vec()
}

async fn every_probe_type_works_with_every_handler(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "all")?;
    let pods = [
        ("http", "serve", page("/healthz")),
        ("redirect", "serve", page("/redirect")),
        ("tcp", "serve", json!({"tcpSocket": {"port": 8080}})),
        ("grpc", "serve-grpc", json!({"grpc": {"port": 8080}})),
        ("exec", "sleep forever", json!({"exec": {"command": ["/demo", "print", "well"]}})),
    ];
    for (name, arguments, handler) in &pods {
        node.write(&format!("{name}.json"), &server_health.pod(name, arguments, &all_kinds(handler)))?;
    }
    for (name, ..) in &pods {
        node.wait_pod(name, "is ready", |pod| pod.container("main").ready).await?;
        ensure!(started(&node, name).await?, "{name} is ready and not started");
    }
    throughout("all stay healthy", Duration::from_secs(4), || async {
        for (name, ..) in &pods {
            let main = node.pod(name).await?.container("main");
            ensure!(main.ready && main.restarts == 0, "{name}: {main:?}");
        }
        Ok(())
    })
    .await
}

async fn readiness_follows_the_probe(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let patient = json!({"failureThreshold": 3});
    let servers = [
        ("web", "serve --status-file /health/status", page("/")),
        ("grpc", "serve-grpc --status-file /health/status", json!({"grpc": {"port": 8080}})),
    ];
    for (name, arguments, handler) in &servers {
        let readiness = ("readinessProbe", probe(handler, &patient));
        node.write(&format!("{name}.json"), &server_health.pod(name, arguments, &[readiness]))?;
    }
    for (name, ..) in &servers {
        node.wait_pod(name, "is ready", |pod| pod.container("main").ready).await?;
    }
    server_health.set_status(503)?;
    let begun = Instant::now();
    for (name, ..) in &servers {
        let pod = node.wait_pod(name, "is not ready", |pod| !pod.container("main").ready).await?;
        ensure!(begun.elapsed() > Duration::from_millis(1500), "not ready after {:?}", begun.elapsed());
        ensure!(pod.phase == "Running" && pod.container("main").state == "running", "{pod:?}");
    }
    let conditions =
        node.api_pod("web").await?.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let ready = ready.map(|ready| (ready.status.as_str(), ready.reason.as_deref(), ready.message.as_deref()));
    let expected = ("False", Some("ContainersNotReady"), Some("containers with unready status: [main]"));
    ensure!(ready == Some(expected), "{ready:?}");
    server_health.set_status(200)?;
    for (name, ..) in &servers {
        let pod = node.wait_pod(name, "is ready again", |pod| pod.container("main").ready).await?;
        ensure!(pod.container("main").restarts == 0, "{pod:?}");
    }
    Ok(())
}

async fn failed_liveness_probe_kills_with_probe_grace_period(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    // The pod's grace period is much longer than the test.
    let own_grace = json!({"terminationGracePeriodSeconds": 1});
    let liveness = ("livenessProbe", probe(&file("/health/status"), &own_grace));
    let mut manifest = server_health.pod("web", "sleep forever --ignore-term", &[liveness]);
    if let Some(grace) = manifest.pointer_mut("/spec/terminationGracePeriodSeconds") {
        *grace = json!(600);
    }
    server_health.set_status(200)?;
    node.write("web.json", &manifest)?;
    let first = node.wait_running("web").await?.container("main");
    throughout("lives", Duration::from_secs(3), || async {
        let main = node.pod("web").await?.container("main");
        ensure!(main.restarts == 0 && main.id == first.id, "{main:?}");
        Ok(())
    })
    .await?;
    std::fs::remove_file(node.runtime.instance().path("health-web").join("status"))?;
    let pod = node.wait_pod("web", "was restarted", |pod| pod.container("main").restarts >= 1).await?;
    ensure!(pod.container("main").exit_code == Some(137), "{pod:?}");
    // Ends as fast as it starts: leaves no process behind that ignores signals for ten minutes.
    for view in node.running("web").await? {
        testkit::instance::kill(node.cri().pid(&view.id).await?, rustix::process::Signal::KILL)?;
    }
    Ok(())
}

async fn startup_probe_delays_other_probes(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let probes = [
        ("startupProbe", probe(&file("/health/status"), &json!({"failureThreshold": 100}))),
        ("readinessProbe", probe(&page("/"), &json!({}))),
        // Nothing listens on this port, so the container is killed as soon as this probe runs.
        ("livenessProbe", probe(&json!({"tcpSocket": {"port": 81}}), &json!({}))),
    ];
    node.write("web.json", &server_health.pod("web", "serve", &probes))?;
    node.wait_running("web").await?;
    throughout("is not started", Duration::from_secs(4), || async {
        let main = node.pod("web").await?.container("main");
        ensure!(main.restarts == 0 && !main.ready && !started(&node, "web").await?, "{main:?}");
        Ok(())
    })
    .await?;
    server_health.set_status(200)?;
    node.wait_pod("web", "has its liveness probe called", |pod| pod.container("main").restarts >= 1).await?;
    Ok(())
}

async fn failed_startup_probe_kills_the_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let startup = probe(&page("/"), &json!({"failureThreshold": 2, "initialDelaySeconds": 2}));
    server_health.set_status(500)?;
    node.write(
        "web.json",
        &server_health.pod("web", "serve --status-file /health/status", &[("startupProbe", startup)]),
    )?;
    let pod = node.wait_pod("web", "was restarted", |pod| pod.container("main").restarts >= 1).await?;
    ensure!(pod.container("main").exit_code == Some(0), "{pod:?}");
    let views = node.cri().containers_of("web-node-a").await?;
    let first = views.iter().find(|view| view.attempt == 0);
    if let Some(first) = first {
        let lived = Duration::from_nanos(u64::try_from(first.finished_at - first.started_at)?);
        ensure!(lived >= Duration::from_secs(2), "killed after {lived:?}");
    }
    Ok(())
}

/// Upstream loses probe results of static pods and shows them as not ready after each restart.
async fn ready_pods_stay_ready_after_agent_kill(agent: Agent) -> Result<()> {
    let mut node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let rare = json!({"periodSeconds": 300});
    let probes = [("startupProbe", probe(&page("/"), &rare)), ("readinessProbe", probe(&page("/"), &rare))];
    node.write("web.json", &server_health.pod("web", "serve --status-file /health/status", &probes))?;
    node.wait_pod("web", "is ready", |pod| pod.container("main").ready).await?;
    // Neither a new probe nor a missing probe result would make it ready.
    server_health.set_status(500)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    node.restart_agent().await?;
    node.wait_pod("web", "is known", |pod| pod.container("main").state == "running").await?;
    throughout("stays ready", Duration::from_secs(4), || async {
        let main = node.pod("web").await?.container("main");
        ensure!(main.ready && main.restarts == 0 && started(&node, "web").await?, "{main:?}");
        Ok(())
    })
    .await
}

async fn probes_are_reported_in_events_and_metrics(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let server_health = ServerHealth::new(&node, "web")?;
    let probes = [
        ("readinessProbe", probe(&page("/slow"), &json!({"timeoutSeconds": 1}))),
        ("livenessProbe", probe(&page("/away"), &json!({}))),
    ];
    node.write("web.json", &server_health.pod("web", "serve", &probes))?;
    let expected = [
        "Readiness probe failed: Get \\\"http://10.",
        ":8080/slow\\\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        "Liveness probe warning: Probe terminated redirects, Response body: hello from podward",
        "ProbeWarning",
        "Unhealthy",
    ];
    testkit::poll::eventually("events report it", Duration::from_secs(60), async || {
        let page = node.agent.page("/podward/events").await?;
        let missing: Vec<&&str> = expected.iter().filter(|text| !page.contains(**text)).collect();
        ensure!(missing.is_empty(), "missing: {missing:?} in {page}");
        Ok(())
    })
    .await?;
    let metrics = node.agent.page("/metrics/probes").await?;
    let total = "prober_probe_total{container=\"main\",namespace=\"default\",pod=\"web-node-a\"";
    ensure!(metrics.contains(total), "{metrics}");
    ensure!(metrics.contains("process_start_time_seconds"), "{metrics}");
    let pod = node.pod("web").await?;
    ensure!(!pod.container("main").ready && pod.container("main").restarts == 0, "{pod:?}");
    Ok(())
}
