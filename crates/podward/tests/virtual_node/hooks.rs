//! Lifecycle hooks and their events.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use model::EventSubject;
use ports::outbound::{HttpAnswer, OutboundError, Purpose, Scheme};
use serde_json::{Value, json};
use testkit::fake_outbound::OutboundRequest;
use testkit::fake_runtime::{ExecOutcome, Fault, Injection, Rpc};
use testkit::poll::eventually;
use tonic::Code;

use crate::node::{TIMEOUT, VirtualNode, containers, pod};

fn with_hooks(uid: &str, hooks: Value) -> Value {
    let mut manifest = pod("a", uid, &["main", "next"]);
    manifest["spec"]["containers"][0]["lifecycle"] = hooks;
    manifest
}

/// Waits for an event of the pod; returns its field path and message.
async fn event(node: &VirtualNode, reason: &str) -> (String, String) {
    eventually(&format!("event {reason}"), TIMEOUT, async || {
        let all: Vec<_> = node.views().events.all().into_iter().map(|series| series.event).collect();
        let found = all.iter().find(|event| event.reason == reason);
        let Some(event) = found else {
            anyhow::bail!("{:?}", all.iter().map(|event| event.reason.clone()).collect::<Vec<_>>())
        };
        let EventSubject::Pod { field_path, .. } = &event.subject else { anyhow::bail!("{event:?}") };
        Ok((field_path.clone(), event.message.clone()))
    })
    .await
    .unwrap()
}

fn expected_event(field: &str, message: &str) -> (String, String) {
    (field.to_owned(), message.to_owned())
}

/// Records the commands, which end with this outcome.
fn commands(node: &VirtualNode, outcome: ExecOutcome) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&seen);
    node.runtime.set_exec(move |_, command| {
        writes.lock().push(command.join(" "));
        outcome.clone()
    });
    seen
}

#[tokio::test]
async fn failed_post_start_hook_kills_its_container_and_is_reported() {
    let node = VirtualNode::started();
    let seen = commands(&node, ExecOutcome::exits(3).printing("no\n"));
    let hooks =
        json!({"postStart": {"exec": {"command": ["x", "y"]}}, "preStop": {"exec": {"command": ["bye"]}}});
    node.write("a.json", &with_hooks("uid-a", hooks));
    let status = node
        .until_status("uid-a", |status| {
            let main = containers(status).iter().find(|one| one.name == "main");
            let waiting = main.and_then(|main| main.state.as_ref()?.waiting.as_ref());
            waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("PostStartHookError"))
        })
        .await;
    let main = containers(&status).iter().find(|one| one.name == "main").unwrap();
    assert_eq!(
        main.state.as_ref().unwrap().waiting.as_ref().unwrap().message.as_deref(),
        Some(
            "Exec lifecycle hook ([x y]) for Container \"main\" in Pod \"a-node_default(uid-a)\" failed - error: \
             command 'x y' exited with 3: , message: \"no\\n\""
        )
    );
    let main = "spec.containers{main}";
    assert_eq!(event(&node, "FailedPostStartHook").await, expected_event(main, "PostStartHook failed"));
    assert_eq!(event(&node, "Killing").await, expected_event(main, "FailedPostStartHook"));
    assert_eq!(event(&node, "FailedPreStopHook").await, expected_event(main, "PreStopHook failed"));
    assert_eq!(seen.lock()[..2], ["x y", "bye"]);
    // The other container is not affected.
    node.until("the next container runs", |state| {
        state.containers().any(|one| one.name() == "next" && one.exit.code == 0)
    })
    .await;
}

#[tokio::test]
async fn hook_failure_reports_the_runtimes_code() {
    let node = VirtualNode::started();
    let missing = Fault::Fail(Code::Unknown, "exec: \"x\": not found".to_owned());
    node.runtime.inject(Injection::new(Rpc::ExecSync, missing));
    node.write("a.json", &with_hooks("uid-a", json!({"postStart": {"exec": {"command": ["x"]}}})));
    let message = "Exec lifecycle hook ([x]) for Container \"main\" in Pod \"a-node_default(uid-a)\" failed - error: \
                   rpc error: code = Unknown desc = exec: \"x\": not found, message: \"\"";
    node.until_status("uid-a", |status| {
        let main = containers(status).iter().find(|one| one.name == "main");
        let waiting = main.and_then(|main| main.state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.message.as_deref() == Some(message))
    })
    .await;
}

#[tokio::test]
async fn hanging_hook_blocks_neither_other_pods_nor_termination() {
    let node = VirtualNode::started();
    commands(&node, ExecOutcome::exits(0).taking(Duration::from_secs(3600)));
    node.write("a.json", &with_hooks("uid-a", json!({"postStart": {"exec": {"command": ["x"]}}})));
    node.until("the hook runs", |state| state.count(Rpc::ExecSync) > 0).await;
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    node.until_running("uid-b").await;
    node.remove("a.json");
    node.until_gone("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn image_change_runs_the_pre_stop_hook() {
    let node = VirtualNode::started();
    let seen = commands(&node, ExecOutcome::exits(0));
    let manifest = with_hooks("uid-a", json!({"preStop": {"exec": {"command": ["bye"]}}}));
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    let mut edited = manifest;
    edited["spec"]["containers"][0]["image"] = json!("example.com/other:2");
    node.write("a.json", &edited);
    node.until_status("uid-a", |status| containers(status).iter().any(|one| one.restart_count == 1)).await;
    assert_eq!(*seen.lock(), ["bye"]);
    let message = "Container main definition changed, will be restarted";
    assert_eq!(event(&node, "Killing").await, expected_event("spec.containers{main}", message));
}

#[tokio::test]
async fn https_hook_falls_back_to_plain_http() {
    let node = VirtualNode::started();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let writes = Arc::clone(&asked);
    node.network.answer(move |request| {
        let OutboundRequest::Http(get) = request else { return Err(OutboundError::Failed("what?".into())) };
        writes.lock().push(get.clone());
        match get.scheme {
            Scheme::Https => {
                Err(OutboundError::PlainAnswer("server gave HTTP response to HTTPS client".into()))
            }
            Scheme::Http => Ok(HttpAnswer { status: 500, body: Vec::new() }),
        }
    });
    let headers = json!([{"name": "Authorization", "value": "secret"}, {"name": "X", "value": "y"}]);
    let get =
        json!({"path": "/x", "port": 8443, "scheme": "HTTPS", "host": "10.9.8.7", "httpHeaders": headers});
    node.write("a.json", &with_hooks("uid-a", json!({"postStart": {"httpGet": get}})));
    node.until_running("uid-a").await;
    let message =
        "request to HTTPS lifecycle hook 10.9.8.7:8443 got HTTP response, retry with HTTP succeeded";
    assert_eq!(event(&node, "LifecycleHTTPFallback").await, expected_event("", message));
    let asked = asked.lock();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|get| get.purpose == Purpose::Hook && get.limit.is_none() && get.path == "/x"));
    assert_eq!(asked[0].headers.len(), 2);
    assert_eq!(asked[1].headers, [("X".to_owned(), "y".to_owned())]);
}
