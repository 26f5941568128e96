//! The life of pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use serde_json::json;
use testkit::fake_runtime::{ContainerBehaviour, Exit, Fault, Injection, Rpc};
use timing::BackoffPolicy;

use crate::node::{TIMEOUT, VirtualNode, containers, pod};

#[tokio::test]
async fn pod_is_created_updated_and_removed() {
    let node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main", "side"]));
    node.until_running("uid-a").await;
    let side = node.running("uid-a", "side");

    let mut edited = pod("a", "uid-a", &["main", "side"]);
    edited["spec"]["containers"][0]["image"] = json!("example.com/other:2");
    node.write("a.json", &edited);
    let status = node
        .until_status("uid-a", |status| containers(status).iter().any(|one| one.restart_count == 1))
        .await;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    node.until_running("uid-a").await;
    assert_eq!(node.running("uid-a", "side"), side, "a container that did not change was touched");

    node.remove("a.json");
    node.until_gone("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn pods_of_the_same_name_run_one_after_the_other() {
    let node = VirtualNode::started();
    let slow = ContainerBehaviour::runs_forever().stopping_with(Duration::from_millis(300), 143);
    node.runtime.set_behaviour("example.com/main:1", slow);
    node.write("a.json", &pod("a", "uid-1", &["main"]));
    node.until_running("uid-1").await;
    node.write("a.json", &pod("a", "uid-2", &["main"]));
    node.until_running("uid-2").await;
    let (ended, started) = (node.containers("uid-1"), node.containers("uid-2"));
    let ended = ended.first().map_or(i64::MIN, |one| one.finished_at);
    assert!(started[0].started_at >= ended, "the second pod started while the first one ran");
    node.until_gone("uid-1").await;
    node.until_running("uid-2").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_added_again_while_stopping_is_restarted() {
    let node = VirtualNode::started();
    let slow = ContainerBehaviour::runs_forever().stopping_with(Duration::from_millis(700), 143);
    node.runtime.set_behaviour("example.com/main:1", slow);
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let first = node.running("uid-a", "main");
    node.remove("a.json");
    node.until("the stop begins", |state| state.count(Rpc::StopContainer) > 0).await;
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until("a new container runs", |state| {
        state.running_container("uid-a", "main").is_some_and(|one| one.id != first)
    })
    .await;
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn crash_backoff_grows() {
    let mut node = VirtualNode::new();
    let wait = Duration::from_millis(200);
    node.crash_backoff = BackoffPolicy { initial: wait, cap: wait * 4, ..node.crash_backoff };
    node.runtime.set_behaviour("example.com/main:1", ContainerBehaviour::exits(3));
    node.start_agent();
    node.write("a.json", &pod("a", "uid-a", &["main", "side"]));
    // Between an exit and the backoff, the exit is the current state, not the last one.
    let waits_again = |status: &PodStatus| {
        let waiting = |one: &ContainerStatus| one.state.as_ref().is_some_and(|state| state.waiting.is_some());
        containers(status).iter().any(|one| one.restart_count >= 4 && waiting(one))
    };
    let status = node.until_status("uid-a", waits_again).await;
    let main = containers(&status).iter().find(|one| one.name == "main").unwrap();
    let waits = main.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(
        waits.message.as_deref(),
        Some("back-off 800ms restarting failed container=main pod=a-node_default(uid-a)")
    );
    assert_eq!(main.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 3);
    let creations: Vec<i64> = {
        let calls = node.runtime.calls();
        let made =
            calls.iter().filter(|call| call.rpc == Rpc::CreateContainer && call.subject.container == "main");
        made.map(|call| call.at).collect()
    };
    let waits: Vec<i64> = creations.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    // The first restart is immediate; each further delay doubles.
    assert!(waits[1] >= 200 && waits[2] >= 400 && waits[3] >= 800, "{waits:?}");
    assert!(containers(&status).iter().any(|one| one.name == "side" && one.restart_count == 0));
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_with_restart_policy_never_ends_with_its_containers() {
    for (policy, code, phase) in
        [("Never", 0, "Succeeded"), ("Never", 5, "Failed"), ("OnFailure", 0, "Succeeded")]
    {
        let node = VirtualNode::started();
        node.runtime.set_behaviour("example.com/main:1", ContainerBehaviour::exits(code));
        let mut manifest = pod("a", "uid-a", &["main"]);
        manifest["spec"]["restartPolicy"] = json!(policy);
        node.write("a.json", &manifest);
        let status = node.until_status("uid-a", |status| status.phase.as_deref() == Some(phase)).await;
        assert_eq!(containers(&status)[0].restart_count, 0);
        node.until("the sandbox is stopped", |state| state.ready_sandbox("uid-a").is_none()).await;
        let mut node = node;
        node.restart_agent().await;
        node.until_status("uid-a", |status| status.phase.as_deref() == Some(phase)).await;
        assert_eq!(node.containers("uid-a").len(), 1, "{}", node.describe());
        node.assert_no_violations();
    }
}

/// Kills everything of a pod, like a reboot.
fn crash(node: &VirtualNode, uid: &str) -> String {
    let sandbox = node.runtime.read(|state| state.ready_sandbox(uid).unwrap().id.clone());
    // The sandbox ends first, so that nothing is started in it.
    node.runtime.kill_sandbox(&sandbox);
    for one in node.containers(uid).iter().filter(|one| one.is_running()) {
        node.runtime.exit_container(&one.id, Exit::code(0));
    }
    sandbox
}

/// Index of the runtime call that stopped the sandbox.
fn stop_of(node: &VirtualNode, sandbox: &str) -> Option<usize> {
    let calls = node.runtime.calls();
    calls.iter().position(|call| call.rpc == Rpc::StopPodSandbox && call.subject.id == sandbox)
}

#[tokio::test]
async fn dead_sandbox_is_stopped_before_the_next_is_created() {
    let mut node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    node.kill_agent().await;
    let dead = crash(&node, "uid-a");
    node.runtime.clear_calls();
    node.start_agent();
    node.until("a new sandbox is there", |state| state.ready_sandbox("uid-a").is_some()).await;
    let calls = node.runtime.calls();
    let made = calls.iter().position(|call| call.rpc == Rpc::RunPodSandbox).unwrap();
    assert!(stop_of(&node, &dead).is_some_and(|stopped| stopped < made), "{}", node.describe());
    node.until_running("uid-a").await;
    let events = node.views().events.all();
    assert!(events.iter().any(|series| series.event.reason == "SandboxChanged"), "no event");
    node.assert_no_violations();
}

#[tokio::test]
async fn finished_pod_stops_its_sandbox_once() {
    let mut node = VirtualNode::started();
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["restartPolicy"] = json!("Never");
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    node.kill_agent().await;
    let dead = crash(&node, "uid-a");
    node.runtime.clear_calls();
    node.start_agent();
    node.until_status("uid-a", |status| status.phase.as_deref() == Some("Succeeded")).await;
    node.until("its sandbox is stopped", |state| state.count(Rpc::StopPodSandbox) > 0).await;
    assert!(stop_of(&node, &dead).is_some(), "{}", node.describe());
    node.remove("a.json");
    node.until_gone("uid-a").await;
    assert_eq!(node.runtime.count(Rpc::RunPodSandbox), 0);
    node.assert_no_violations();
}

#[tokio::test]
async fn failed_container_restarts_under_on_failure() {
    let mut node = VirtualNode::new();
    node.crash_backoff = BackoffPolicy {
        initial: Duration::from_millis(10),
        cap: Duration::from_millis(10),
        ..node.crash_backoff
    };
    let mut runs = 0;
    node.runtime.set_behaviour_hook(move |_| {
        runs += 1;
        Some(ContainerBehaviour::exits(if runs < 3 { 1 } else { 0 }))
    });
    node.start_agent();
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["restartPolicy"] = json!("OnFailure");
    node.write("a.json", &manifest);
    let status = node.until_status("uid-a", |status| status.phase.as_deref() == Some("Succeeded")).await;
    assert_eq!(containers(&status)[0].restart_count, 2);
    node.assert_no_violations();
}

#[tokio::test]
async fn pull_passes_the_sandbox_config() {
    let node = VirtualNode::started();
    let mut annotated = pod("a", "uid-a", &["main"]);
    annotated["metadata"]["annotations"] = json!({"io.containerd.cri.runtime-handler": "kata"});
    annotated["metadata"]["labels"] = json!({"app": "web"});
    node.write("a.json", &annotated);
    node.until_running("uid-a").await;
    let pulled = node.runtime.read(|state| state.pulls().to_vec()).remove(0);
    assert_eq!(pulled.image.unwrap().annotations["io.containerd.cri.runtime-handler"], "kata");
    // The complete sandbox config, so that the pull can be charged to the pod's cgroup.
    let made = node.runtime.read(|state| state.sandboxes().next().unwrap().config.clone());
    assert!(!made.linux.as_ref().unwrap().cgroup_parent.is_empty() && !made.log_directory.is_empty());
    assert_eq!(pulled.sandbox_config, Some(made));
}

#[tokio::test]
async fn pods_of_different_namespaces_pull_separately() {
    let node = VirtualNode::started();
    let held = node.runtime.inject(Injection::new(Rpc::PullImage, Fault::Hang));
    for (name, namespace) in [("a", "one"), ("b", "two")] {
        let mut manifest = pod(name, &format!("uid-{name}"), &["main"]);
        manifest["metadata"]["namespace"] = json!(namespace);
        node.write(&format!("{name}.json"), &manifest);
    }
    tokio::time::timeout(TIMEOUT, held.wait_hits(2)).await.unwrap();
    held.release();
    for uid in ["uid-a", "uid-b"] {
        node.until_running(uid).await;
    }
}

#[tokio::test]
async fn replaced_container_stays_running_in_the_status_until_the_new_one_runs() {
    for policy in ["OnFailure", "Never"] {
        let node = VirtualNode::started();
        let polite = ContainerBehaviour::runs_forever().stopping_with(Duration::ZERO, 0);
        node.runtime.set_behaviour("example.com/main:1", polite);
        let mut manifest = pod("a", "uid-a", &["main"]);
        manifest["spec"]["restartPolicy"] = json!(policy);
        node.write("a.json", &manifest);
        let before = node.until_running("uid-a").await;
        let first = node.running("uid-a", "main");
        let pull = node.runtime.inject(Injection::new(Rpc::PullImage, Fault::Hang).times(1));
        manifest["spec"]["containers"][0]["image"] = json!("example.com/main:2");
        node.write("a.json", &manifest);
        node.until("the exit is observed", |state| {
            let calls = state.calls().iter().rev().take_while(|call| call.rpc != Rpc::StopContainer);
            let observed = calls.filter(|call| call.rpc == Rpc::ContainerStatus && call.subject.id == first);
            state.running_container("uid-a", "main").is_none() && observed.count() > 0
        })
        .await;
        // Statuses are computed one after the other.
        node.write("b.json", &pod("b", "uid-b", &["main"]));
        node.until_running("uid-b").await;
        assert_eq!(node.status("uid-a").unwrap(), before, "{policy}");
        assert!(pull.hits() > 0);
        pull.release();
        let after = node.until_status("uid-a", |status| containers(status)[0].restart_count == 1).await;
        assert_eq!(after.phase.as_deref(), Some("Running"), "{policy}");
        let container = &containers(&after)[0];
        assert!(container.state.as_ref().unwrap().running.is_some(), "{policy}: {container:?}");
        let last = container.last_state.as_ref().unwrap().terminated.as_ref().unwrap();
        assert_eq!((last.exit_code, last.reason.as_deref()), (0, Some("Completed")), "{policy}");
        node.assert_no_violations();
    }
}
