//! The stage against a fake API server that stores a node and records requests.

mod fakes;

use std::time::Duration;

use fakes::{Fixture, api_error, node_from};
use ports::api::ApiErrorKind;
use serde_json::json;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn registers_ready_node_and_then_reports_periodically() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    let node = fixture.server.node().unwrap();
    assert!(decide::node::node_status::is_ready(&node), "{node:#?}");
    let before = fixture.server.take_calls();
    assert_eq!(before[0], "create");
    // The first report has jitter; after that there is one every five minutes.
    tokio::time::sleep(seconds(3600)).await;
    let calls = fixture.server.take_calls();
    assert!(calls.iter().all(|call| *call == "patch_status"), "{calls:?}");
    assert!((11..=13).contains(&calls.len()), "{}", calls.len());
    let patch = fixture.server.last_patch();
    assert_eq!(patch["status"].as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions"]);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reports_readiness_changes_immediately() {
    let fixture = Fixture::new();
    fixture.start();
    tokio::time::sleep(seconds(1)).await;
    assert!(!decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    // Until the node is ready for the first time, a change is detected within 100 ms.
    fixture.runtime.set(true, false);
    tokio::time::sleep(seconds(6)).await;
    fixture.runtime.set(true, true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    assert_eq!(fixture.events.reasons().last().map(String::as_str), Some("NodeReady"));
    // After that the runtime is checked every five seconds.
    fixture.runtime.set(true, false);
    tokio::time::sleep(seconds(6)).await;
    let node = fixture.server.node().unwrap();
    let ready = node.status.unwrap().conditions.unwrap().pop().unwrap();
    assert_eq!(
        ready.message.as_deref(),
        Some("container runtime network not ready: NetworkReady=false reason:R message:m")
    );
    assert_eq!(fixture.events.reasons().last().map(String::as_str), Some("NodeNotReady"));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn short_runtime_outage_does_not_change_readiness() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    fixture.runtime.make_unavailable();
    tokio::time::sleep(seconds(25)).await;
    assert!(decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    tokio::time::sleep(seconds(20)).await;
    let node = fixture.server.node().unwrap();
    let status = node.status.unwrap();
    let ready = status.conditions.unwrap().pop().unwrap();
    assert_eq!(ready.message.as_deref(), Some("container runtime is down"));
    // The version and handlers of the runtime stay in the status.
    assert_eq!(status.node_info.unwrap().container_runtime_version, "fake://1.2.3");
    assert_eq!(status.runtime_handlers.unwrap().len(), 1);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn node_is_not_ready_when_relist_fails() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    fixture.set_relist_works(false);
    tokio::time::sleep(seconds(175)).await;
    assert!(decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    tokio::time::sleep(seconds(20)).await;
    let ready = fixture.server.node().unwrap().status.unwrap().conditions.unwrap().pop().unwrap();
    let message = ready.message.unwrap();
    assert!(message.starts_with("PLEG is not healthy: pleg was last seen active 3m"), "{message}");
    assert!(message.ends_with(" ago; threshold is 3m0s"), "{message}");
    fixture.set_relist_works(true);
    tokio::time::sleep(seconds(15)).await;
    assert!(decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retries_registration_until_server_is_reachable() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.server.fail("create", vec![api_error(ApiErrorKind::Unreachable); 4]);
    fixture.start();
    // 0.2 + 0.4 + 0.8 + 1.6 s, plus jitter.
    tokio::time::sleep(Duration::from_millis(2900)).await;
    assert!(fixture.server.node().is_none());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(fixture.server.node().is_some());
    assert_eq!(fixture.events.reasons()[0], "Starting");
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn adopts_existing_node_when_creation_is_forbidden() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.server.put(node_from(json!({
        "metadata": { "name": "n", "resourceVersion": "7", "labels": { "kept": "yes" } },
        "status": { "nodeInfo": { "bootID": "before", "architecture": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": "" } },
    })));
    fixture.server.fail("create", vec![api_error(ApiErrorKind::Forbidden)]);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    let node = fixture.server.node().unwrap();
    let labels = node.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["kept"].as_str(), labels["kubernetes.io/hostname"].as_str()), ("yes", "n"));
    assert!(decide::node::node_status::is_ready(&node));
    let calls = fixture.server.take_calls();
    assert_eq!(calls, ["create", "get", "patch_status", "patch_status"]);
    assert_eq!(fixture.events.reasons().iter().filter(|reason| *reason == "Rebooted").count(), 1);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retries_forbidden_creation_when_configured() {
    let mut fixture = Fixture::new();
    fixture.on_forbidden = super::OnForbidden::Retry;
    fixture.runtime.set(true, true);
    fixture.server.put(node_from(json!({"metadata": { "name": "n" }})));
    fixture.server.fail("create", vec![api_error(ApiErrorKind::Forbidden); 3]);
    fixture.start();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert!(fixture.server.node().unwrap().metadata.labels.is_none(), "the existing node is not changed");
    // 0.2 + 0.4 + 0.8 s, plus jitter; then the server reports that the node exists, and it is adopted.
    tokio::time::sleep(seconds(2)).await;
    assert!(fixture.server.node().unwrap().metadata.labels.is_some());
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn updates_status_of_externally_created_node() {
    let fixture = Fixture::with_external_registration();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(60)).await;
    assert!(!fixture.server.take_calls().contains(&"create"));
    fixture.server.put(node_from(json!({ "metadata": { "name": "n", "resourceVersion": "1" } })));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(decide::node::node_status::is_ready(&fixture.server.node().unwrap()));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reads_node_again_after_failed_status_update() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    fixture.server.take_calls();
    fixture.server.fail("patch_status", vec![api_error(ApiErrorKind::Server); 2]);
    fixture.report_senders.volumes_in_use.send_replace(Some(vec!["v".into()]));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let expected = ["patch_status", "get", "patch_status", "get", "patch_status"];
    assert_eq!(fixture.server.take_calls(), expected);
    assert_eq!(fixture.server.node().unwrap().status.unwrap().volumes_in_use, Some(vec!["v".to_owned()]));
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn handles_pod_cidrs_and_cordoning() {
    let fixture = Fixture::new();
    fixture.runtime.set(true, true);
    fixture.start();
    tokio::time::sleep(seconds(2)).await;
    let mut node = fixture.server.node().unwrap();
    let spec = node.spec.get_or_insert_default();
    spec.unschedulable = Some(true);
    spec.pod_cidrs = Some(vec!["10.1.0.0/24".into(), "fd00::/64".into()]);
    fixture.server.put(node.clone());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(fixture.runtime.pod_cidrs(), ["10.1.0.0/24,fd00::/64"]);
    assert_eq!(fixture.events.reasons().last().map(String::as_str), Some("NodeNotSchedulable"));
    node.spec.get_or_insert_default().unschedulable = None;
    fixture.server.put(node);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(fixture.events.reasons().last().map(String::as_str), Some("NodeSchedulable"));
    assert_eq!(fixture.runtime.pod_cidrs().len(), 1);
    fixture.stop().await;
}
