//! Graceful node shutdown.

use std::time::Duration;

use decide::node::node_shutdown::{ShutdownPeriod, ShutdownPeriods};
use k8s_openapi::api::core::v1::PodStatus;
use ports::host::logind::ShutdownSignal;
use serde_json::{Value, json};
use testkit::fake_runtime::{ContainerBehaviour, Rpc};
use testkit::poll::eventually;

use crate::node::{TIMEOUT, VirtualNode, pod};

const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// A node with grace periods for normal and then for critical pods. Containers need some time and exit with an error.
fn node() -> VirtualNode {
    let mut node = VirtualNode::new();
    let periods = [(0, 30), (1000, 30)].map(|(priority, seconds)| ShutdownPeriod { priority, seconds });
    node.shutdown = ShutdownPeriods::of(&periods, Duration::ZERO, Duration::ZERO);
    let slow = ContainerBehaviour::runs_forever().stopping_with(Duration::from_millis(300), 143);
    node.runtime.set_behaviour("example.com/main:1", slow);
    node
}

fn prioritized(name: &str, priority: i32) -> Value {
    let mut manifest = pod(name, &format!("uid-{name}"), &["main"]);
    manifest["spec"]["priority"] = json!(priority);
    manifest["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    manifest
}

fn has_ended(status: &PodStatus) -> bool {
    status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("Terminated")
}

fn is_refused(status: &PodStatus) -> bool {
    status.phase.as_deref() == Some("Failed") && status.reason.as_deref() == Some("NodeShutdown")
}

async fn until_locks(node: &VirtualNode, count: usize) {
    let question = || async {
        let held = node.logind.change(|state| state.locks_held);
        anyhow::ensure!(held == count, "{held} locks are held");
        Ok(())
    };
    eventually("locks", TIMEOUT, question).await.unwrap();
}

/// When the only container of a pod was first stopped, and when it exited.
fn stop_of(node: &VirtualNode, uid: &str) -> (i64, i64) {
    let calls = node.runtime.calls();
    let stop =
        calls.iter().find(|call| call.rpc == Rpc::StopContainer && call.subject.pod_uid == uid).unwrap();
    (stop.at, node.containers(uid)[0].finished_at)
}

#[tokio::test]
async fn shutdown_ends_pods_by_priority_and_can_be_cancelled() {
    let mut node = node();
    node.start_agent();
    node.write("low.json", &prioritized("low", 0));
    node.write("high.json", &prioritized("high", 1000));
    node.until_running("uid-low").await;
    node.until_running("uid-high").await;
    until_locks(&node, 1).await;

    node.logind.signal(ShutdownSignal::Imminent);
    node.write("new.json", &prioritized("new", 0));
    for uid in ["uid-low", "uid-high"] {
        let status = node.until_status(uid, has_ended).await;
        assert_eq!(status.message.as_deref(), Some(MESSAGE));
        let conditions = status.conditions.unwrap_or_default();
        let target = conditions.iter().find(|one| one.type_ == "DisruptionTarget").unwrap();
        assert_eq!((&*target.status, target.reason.as_deref()), ("True", Some("TerminationByKubelet")));
        assert_eq!(target.message.as_deref(), Some(MESSAGE));
    }
    let ((_, low_ended), (high_began, high_ended)) = (stop_of(&node, "uid-low"), stop_of(&node, "uid-high"));
    assert!(low_ended <= high_began, "an important pod was stopped while a plain one ran");
    let refused = node.until_status("uid-new", is_refused).await;
    assert_eq!(
        refused.message.as_deref(),
        Some("Pod was rejected: Pod was rejected as the node is shutting down.")
    );
    until_locks(&node, 0).await;
    assert!(high_ended > 0 && node.containers("uid-new").is_empty());
    let events = node.views().events.all();
    let has_event = |message: &str| {
        events.iter().any(|one| one.event.reason == "Shutdown" && one.event.message == message)
    };
    assert!(has_event("Shutdown manager detected shutdown event"));
    let state = std::fs::read(node.path("root/graceful_node_shutdown_state")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    assert!(state["endTime"].as_str().unwrap() > state["startTime"].as_str().unwrap(), "{state}");
    let page = node.views().metrics.encode(agent::metrics::Format::Text);
    assert!(page.contains("\nkubelet_graceful_shutdown_end_time_seconds 1"), "{page}");

    node.logind.signal(ShutdownSignal::Cancelled);
    until_locks(&node, 1).await;
    node.write("later.json", &prioritized("later", 0));
    node.until_running("uid-later").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn shutdown_continues_after_agent_kill() {
    let mut node = node();
    node.start_agent();
    node.write("low.json", &prioritized("low", 0));
    node.write("high.json", &prioritized("high", 1000));
    node.until_running("uid-low").await;
    node.until_running("uid-high").await;
    until_locks(&node, 1).await;
    node.logind.signal(ShutdownSignal::Imminent);
    node.until("the first pod ends", |state| state.count(Rpc::StopContainer) > 0).await;
    node.kill_agent().await;
    assert_eq!(node.logind.change(|state| state.locks_held), 0, "a dead agent holds up nothing");

    node.write("new.json", &prioritized("new", 0));
    node.start_agent();
    node.until_status("uid-new", is_refused).await;
    // The first pod had ended when the agent was killed and is rejected like a new pod; the other one runs and ends later.
    node.until_status("uid-low", |status| has_ended(status) || is_refused(status)).await;
    node.until_status("uid-high", has_ended).await;
    node.until("nothing runs", |state| state.running_count() == 0).await;
    assert_eq!(node.runtime.count(Rpc::StartContainer), 2, "started again\n{}", node.describe());
    let ended = || async {
        let state = std::fs::read_to_string(node.path("root/graceful_node_shutdown_state"))?;
        anyhow::ensure!(!state.contains("0001-01-01"), "{state}");
        Ok(())
    };
    eventually("the end is written down", TIMEOUT, ended).await.unwrap();
    node.assert_no_violations();
}
