//! The stage against a server that keeps a node and counts what it is asked.

mod fakes;

use std::time::Duration;

use fakes::{Agent, node_in, refused};
use ports::api::ApiErrorKind;
use serde_json::json;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[tokio::test(start_paused = true)]
async fn a_node_is_made_ready_and_left_alone_until_it_is_due() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    let node = agent.server.node().unwrap();
    assert!(decide::node_status::is_ready(&node), "{node:#?}");
    let before = agent.server.take_calls();
    assert_eq!(before[0], "create");
    // The first report is spread; after that one comes each five minutes.
    tokio::time::sleep(seconds(3600)).await;
    let calls = agent.server.take_calls();
    assert!(calls.iter().all(|call| *call == "patch_status"), "{calls:?}");
    assert!((11..=13).contains(&calls.len()), "{}", calls.len());
    let patch = agent.server.last_patch();
    assert_eq!(patch["status"].as_object().unwrap().keys().collect::<Vec<_>>(), ["conditions"]);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_is_told_at_once() {
    let agent = Agent::new();
    agent.start();
    tokio::time::sleep(seconds(1)).await;
    assert!(!decide::node_status::is_ready(&agent.server.node().unwrap()));
    // The network comes up: seen within 100 ms while the node was never ready.
    agent.runtime.set(true, false);
    tokio::time::sleep(seconds(6)).await;
    agent.runtime.set(true, true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(decide::node_status::is_ready(&agent.server.node().unwrap()));
    assert_eq!(agent.events.reasons().last().map(String::as_str), Some("NodeReady"));
    // Later it is looked at each five seconds.
    agent.runtime.set(true, false);
    tokio::time::sleep(seconds(6)).await;
    let node = agent.server.node().unwrap();
    let ready = node.status.unwrap().conditions.unwrap().pop().unwrap();
    assert_eq!(
        ready.message.as_deref(),
        Some("container runtime network not ready: NetworkReady=false reason:R message:m")
    );
    assert_eq!(agent.events.reasons().last().map(String::as_str), Some("NodeNotReady"));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_silence_of_the_runtime_changes_nothing() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    agent.runtime.go_away();
    tokio::time::sleep(seconds(25)).await;
    assert!(decide::node_status::is_ready(&agent.server.node().unwrap()));
    tokio::time::sleep(seconds(20)).await;
    let node = agent.server.node().unwrap();
    let status = node.status.unwrap();
    let ready = status.conditions.unwrap().pop().unwrap();
    assert_eq!(ready.message.as_deref(), Some("container runtime is down"));
    // What it was and could do is kept.
    assert_eq!(status.node_info.unwrap().container_runtime_version, "fake://1.2.3");
    assert_eq!(status.runtime_handlers.unwrap().len(), 1);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_whose_pods_cannot_be_listed_makes_the_node_not_ready() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    agent.set_lists(false);
    tokio::time::sleep(seconds(175)).await;
    assert!(decide::node_status::is_ready(&agent.server.node().unwrap()));
    tokio::time::sleep(seconds(20)).await;
    let ready = agent.server.node().unwrap().status.unwrap().conditions.unwrap().pop().unwrap();
    let message = ready.message.unwrap();
    assert!(message.starts_with("PLEG is not healthy: pleg was last seen active 3m"), "{message}");
    assert!(message.ends_with(" ago; threshold is 3m0s"), "{message}");
    agent.set_lists(true);
    tokio::time::sleep(seconds(15)).await;
    assert!(decide::node_status::is_ready(&agent.server.node().unwrap()));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn registration_waits_for_the_server() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.server.refuse("create", vec![refused(ApiErrorKind::Unreachable); 4]);
    agent.start();
    // 0.2 + 0.4 + 0.8 + 1.6 s, a little spread.
    tokio::time::sleep(Duration::from_millis(2900)).await;
    assert!(agent.server.node().is_none());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(agent.server.node().is_some());
    assert_eq!(agent.events.reasons()[0], "Starting");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_made_is_taken_over() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.server.put(node_in(json!({
        "metadata": { "name": "n", "resourceVersion": "7", "labels": { "kept": "yes" } },
        "status": { "nodeInfo": { "bootID": "before", "architecture": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": "" } },
    })));
    agent.server.refuse("create", vec![refused(ApiErrorKind::Forbidden)]);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    let node = agent.server.node().unwrap();
    let labels = node.metadata.labels.as_ref().unwrap();
    assert_eq!((labels["kept"].as_str(), labels["kubernetes.io/hostname"].as_str()), ("yes", "n"));
    assert!(decide::node_status::is_ready(&node));
    let calls = agent.server.take_calls();
    assert_eq!(calls, ["create", "get", "patch_status", "patch_status"]);
    assert_eq!(agent.events.reasons().iter().filter(|reason| *reason == "Rebooted").count(), 1);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_made_is_not_looked_for_if_told_so() {
    let mut agent = Agent::new();
    agent.forbidden = super::Forbidden::TryAgain;
    agent.runtime.set(true, true);
    agent.server.put(node_in(json!({"metadata": { "name": "n" }})));
    agent.server.refuse("create", vec![refused(ApiErrorKind::Forbidden); 3]);
    agent.start();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert!(agent.server.node().unwrap().metadata.labels.is_none(), "it is left alone");
    // 0.2 + 0.4 + 0.8 s, a little spread; then it is said to exist, and taken over.
    tokio::time::sleep(seconds(2)).await;
    assert!(agent.server.node().unwrap().metadata.labels.is_some());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_of_others_is_reported_once_it_is_there() {
    let agent = Agent::unregistered();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(60)).await;
    assert!(!agent.server.take_calls().contains(&"create"));
    agent.server.put(node_in(json!({ "metadata": { "name": "n", "resourceVersion": "1" } })));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(decide::node_status::is_ready(&agent.server.node().unwrap()));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_report_is_repeated_from_a_fresh_look() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    agent.server.take_calls();
    agent.server.refuse("patch_status", vec![refused(ApiErrorKind::Server); 2]);
    agent.reporters.volumes_in_use.send_replace(Some(vec!["v".into()]));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let expected = ["patch_status", "get", "patch_status", "get", "patch_status"];
    assert_eq!(agent.server.take_calls(), expected);
    assert_eq!(agent.server.node().unwrap().status.unwrap().volumes_in_use, Some(vec!["v".to_owned()]));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_control_plane_writes_is_followed() {
    let agent = Agent::new();
    agent.runtime.set(true, true);
    agent.start();
    tokio::time::sleep(seconds(2)).await;
    let mut node = agent.server.node().unwrap();
    let spec = node.spec.get_or_insert_default();
    spec.unschedulable = Some(true);
    spec.pod_cidrs = Some(vec!["10.1.0.0/24".into(), "fd00::/64".into()]);
    agent.server.put(node.clone());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(agent.runtime.pod_cidrs(), ["10.1.0.0/24,fd00::/64"]);
    assert_eq!(agent.events.reasons().last().map(String::as_str), Some("NodeNotSchedulable"));
    node.spec.get_or_insert_default().unschedulable = None;
    agent.server.put(node);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(agent.events.reasons().last().map(String::as_str), Some("NodeSchedulable"));
    assert_eq!(agent.runtime.pod_cidrs().len(), 1);
    agent.stop().await;
}
