//! Metrics of the whole agent.

use cri::v1::{RuntimeHandler, RuntimeHandlerFeatures};
use model::PodUid;
use ports::outbound::{HttpAnswer, OutboundError, Scheme};
use serde_json::{Value, json};
use testkit::fake_outbound::OutboundRequest;
use testkit::fake_runtime::{Fault, Injection, Rpc};
use testkit::poll::eventually;
use tonic::Code;

use crate::node::{TIMEOUT, VirtualNode, pod};

/// Waits until the metrics have a line.
async fn until_counted(node: &VirtualNode, line: &str) {
    let question = || async {
        let text = node.views().metrics.encode(agent::metrics::Format::Text);
        let name = line.split(['{', ' ']).next().unwrap();
        let near: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
        anyhow::ensure!(near.contains(&line), "{line}: there is {near:?}");
        Ok(())
    };
    eventually(line, TIMEOUT, question).await.unwrap();
}

fn fails_once(rpc: Rpc) -> Injection {
    Injection::new(rpc, Fault::Fail(Code::Unknown, "no".to_owned())).times(1)
}

#[tokio::test]
async fn counts_failed_sandbox_and_container_starts() {
    let node = VirtualNode::started();
    node.runtime.inject(fails_once(Rpc::RunPodSandbox));
    node.runtime.inject(fails_once(Rpc::StartContainer));
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    until_counted(&node, "kubelet_run_podsandbox_errors_total{runtime_handler=\"\"} 1").await;
    let line =
        "kubelet_started_containers_errors_total{code=\"RunContainerError\",container_type=\"container\"} 1";
    until_counted(&node, line).await;
}

#[tokio::test]
async fn counts_pods_with_user_namespaces() {
    let mut node = VirtualNode::new();
    let features = RuntimeHandlerFeatures { user_namespaces: true, ..Default::default() };
    node.runtime.set_handlers(vec![RuntimeHandler { name: String::new(), features: Some(features) }]);
    node.runtime.inject(fails_once(Rpc::RunPodSandbox));
    node.start_agent();
    let mut manifest: Value = pod("a", "uid-a", &["main"]);
    manifest["spec"]["hostUsers"] = json!(false);
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    until_counted(&node, "kubelet_started_user_namespaced_pods_total 2").await;
    until_counted(&node, "kubelet_started_user_namespaced_pods_errors_total 1").await;
}

#[tokio::test]
async fn counts_restarted_and_orphaned_pods() {
    let mut node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    node.until_running("uid-a").await;
    node.until_running("uid-b").await;
    // It is added again before it has ended.
    let stop = node.runtime.inject(Injection::new(Rpc::StopContainer, Fault::Hang).on("uid-a").times(1));
    node.remove("a.json");
    let asked = || async {
        anyhow::ensure!(stop.hits() > 0, "the container is not being stopped");
        Ok(())
    };
    eventually("the stop", TIMEOUT, asked).await.unwrap();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    eventually("the pod is desired again", TIMEOUT, async || {
        anyhow::ensure!(node.views().desired.get(&PodUid::from("uid-a")).is_some(), "not desired");
        Ok(())
    })
    .await
    .unwrap();
    stop.release();
    until_counted(&node, "kubelet_restarted_pods_total{static=\"true\"} 1").await;

    node.kill_agent().await;
    node.remove("b.json");
    // The checkpoint of the sources is lost.
    std::fs::remove_dir_all(node.path("state")).unwrap();
    node.start_agent();
    until_counted(&node, "kubelet_orphaned_runtime_pods_total 1").await;
    node.until_gone("uid-b").await;
}

#[tokio::test]
async fn counts_interrupted_sleeps_and_http_fallbacks() {
    let node = VirtualNode::started();
    node.network.answer(|request| match request {
        OutboundRequest::Http(get) if get.path == "/live" => Ok(HttpAnswer { status: 500, body: Vec::new() }),
        OutboundRequest::Http(get) if get.scheme == Scheme::Http => {
            Ok(HttpAnswer { status: 200, body: Vec::new() })
        }
        _ => Err(OutboundError::PlainAnswer("server gave HTTP response to HTTPS client".into())),
    });
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["terminationGracePeriodSeconds"] = json!(30);
    manifest["spec"]["containers"][0]["lifecycle"] = json!({
        "postStart": {"httpGet": {"port": 8443, "scheme": "HTTPS", "host": "10.9.8.7"}},
        "preStop": {"sleep": {"seconds": 30}}});
    // The grace period of a failed probe is shorter than the sleep of the hook.
    manifest["spec"]["containers"][0]["livenessProbe"] = json!({
        "httpGet": {"port": 80, "path": "/live", "host": "10.9.8.7"}, "initialDelaySeconds": 3,
        "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 1});
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    until_counted(&node, "kubelet_lifecycle_handler_http_fallbacks_total 1").await;
    until_counted(&node, "kubelet_sleep_action_terminated_early_total 1").await;
}

#[tokio::test]
async fn counts_deferred_resizes_by_trigger() {
    let sized = |name: &str, cpu: &str| {
        let mut manifest = pod(name, &format!("uid-{name}"), &["main"]);
        manifest["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        manifest
    };
    let node = VirtualNode::started();
    node.write("a.json", &sized("a", "1200m"));
    node.write("b.json", &sized("b", "500m"));
    node.until_running("uid-a").await;
    node.until_running("uid-b").await;
    // The resize waits until the other pod is made smaller.
    node.write("b.json", &sized("b", "1500m"));
    node.until_status("uid-b", |status| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.any(|one| one.type_ == "PodResizePending" && one.reason.as_deref() == Some("Deferred"))
    })
    .await;
    node.write("a.json", &sized("a", "200m"));
    until_counted(&node, "kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pod_resized\"} 1")
        .await;
    until_counted(&node, "kubelet_pod_resize_duration_milliseconds_count{success=\"true\"} 2").await;
    let text = node.views().metrics.encode(agent::metrics::Format::Text);
    assert!(!text.contains("retry_trigger=\"pod_updated\""), "{text}");
}
