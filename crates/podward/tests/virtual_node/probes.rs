//! Probes through the whole agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU16, AtomicUsize, Ordering};

use ports::outbound::HttpAnswer;
use serde_json::{Value, json};
use testkit::fake_outbound::OutboundRequest;
use testkit::fake_runtime::ExecOutcome;

use crate::node::{VirtualNode, containers, pod};

fn with_probe(uid: &str, kind: &str, asks: &Value) -> Value {
    let mut manifest = pod("a", uid, &["main"]);
    let mut probe = json!({"periodSeconds": 1, "failureThreshold": 1});
    probe.as_object_mut().unwrap().extend(asks.as_object().unwrap().clone());
    manifest["spec"]["containers"][0][kind] = probe;
    manifest
}

fn page() -> Value {
    json!({"httpGet": {"port": 80, "path": "/ready"}})
}

/// A network that answers every request with this status.
fn switchable(node: &VirtualNode) -> Arc<AtomicU16> {
    let status = Arc::new(AtomicU16::new(200));
    let shared = Arc::clone(&status);
    node.network.answer(move |_| Ok(HttpAnswer { status: shared.load(Ordering::SeqCst), body: Vec::new() }));
    status
}

#[tokio::test]
async fn readiness_probe_changes_the_status() {
    let node = VirtualNode::started();
    let status = switchable(&node);
    node.write("a.json", &with_probe("uid-a", "readinessProbe", &page()));
    let ready = |expected: bool| {
        move |status: &k8s_openapi::api::core::v1::PodStatus| {
            containers(status).iter().any(|one| one.ready == expected && one.started == Some(true))
        }
    };
    node.until_status("uid-a", ready(true)).await;
    let main = node.running("uid-a", "main");
    status.store(500, Ordering::SeqCst);
    node.until_status("uid-a", ready(false)).await;
    status.store(200, Ordering::SeqCst);
    node.until_status("uid-a", ready(true)).await;
    assert_eq!(node.running("uid-a", "main"), main);
    node.assert_no_violations();
}

#[tokio::test]
async fn failed_exec_probe_restarts_its_container() {
    let node = VirtualNode::started();
    let code = Arc::new(AtomicI32::new(0));
    let shared = Arc::clone(&code);
    node.runtime.set_exec(move |_, command| {
        assert_eq!(command, ["check", "it"]);
        ExecOutcome::exits(shared.load(Ordering::SeqCst)).printing("not well")
    });
    node.write(
        "a.json",
        &with_probe("uid-a", "livenessProbe", &json!({"exec": {"command": ["check", "it"]}})),
    );
    node.until_running("uid-a").await;
    code.store(1, Ordering::SeqCst);
    node.until_status("uid-a", |status| containers(status).iter().any(|one| one.restart_count == 1)).await;
    let texts: Vec<String> =
        node.views().events.all().iter().map(|series| series.event.message.clone()).collect();
    for text in ["Liveness probe failed: not well", "Container main failed liveness probe, will be restarted"]
    {
        assert!(texts.iter().any(|one| one == text), "{text}: {texts:?}");
    }
    node.assert_no_violations();
}

#[tokio::test]
async fn probe_results_survive_agent_kill() {
    let mut node = VirtualNode::started();
    let rare = json!({"httpGet": {"port": 80}, "periodSeconds": 3600});
    node.write("a.json", &with_probe("uid-a", "readinessProbe", &rare));
    node.until_status("uid-a", |status| containers(status).iter().any(|one| one.ready)).await;
    // Probe results are on disk soon after they are shown.
    let kept = node.path("state").join("probes");
    let question = || async {
        let text = std::fs::read_to_string(&kept)?;
        anyhow::ensure!(text.contains("\"readiness\":\"success\""), "{text}");
        Ok(())
    };
    testkit::poll::eventually("the probe result is saved", crate::node::TIMEOUT, question).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    node.network.answer(move |question| {
        assert!(matches!(question, OutboundRequest::Http(_)));
        count.fetch_add(1, Ordering::SeqCst);
        Ok(HttpAnswer { status: 500, body: Vec::new() })
    });
    node.restart_agent().await;
    let status = node.until_running("uid-a").await;
    let status = if containers(&status)[0].ready {
        status
    } else {
        node.until_status("uid-a", |status| containers(status).iter().any(|one| one.ready)).await
    };
    assert_eq!((containers(&status)[0].restart_count, asked.load(Ordering::SeqCst)), (0, 0));
    node.assert_no_violations();
}
