//! The runtime, the sources or the event stream misbehave.

use std::time::Duration;

use serde_json::json;
use testkit::fake_runtime::{EventStream, Exit, Fault, Injected, Injection, Rpc};
use testkit::poll::eventually;
use tokio::net::TcpListener;
use tonic::{Code, Status};

use crate::node::{TIMEOUT, VirtualNode, containers, pod};

#[tokio::test]
async fn pods_survive_a_runtime_outage() {
    let mut node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let main = node.running("uid-a", "main");
    node.runtime.stop_serving().await.unwrap();
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    node.runtime.serve_again().unwrap();
    node.until_running("uid-b").await;
    assert_eq!(node.running("uid-a", "main"), main);
    node.assert_no_violations();
}

#[tokio::test]
async fn agent_waits_for_its_runtime() {
    let mut node = VirtualNode::new();
    node.runtime.stop_serving().await.unwrap();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.start_agent();
    node.runtime.serve_again().unwrap();
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn lost_answer_repeats_nothing() {
    for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Unknown] {
        for rpc in [Rpc::RunPodSandbox, Rpc::CreateContainer, Rpc::StartContainer] {
            let node = VirtualNode::started();
            let lost = node.runtime.inject(Injection::new(rpc, Fault::LoseAnswer(code)).times(1));
            node.write("a.json", &pod("a", "uid-a", &["main", "side"]));
            let status = node.until_running("uid-a").await;
            assert_eq!(lost.hits(), 1, "{rpc}");
            node.assert_no_violations();
            let restarts: i32 = containers(&status).iter().map(|one| one.restart_count).sum();
            assert_eq!(restarts, 0, "{rpc} {code}: {}", node.describe());
            let (sandboxes, all) =
                node.runtime.read(|state| (state.sandboxes().count(), state.containers().count()));
            assert_eq!((sandboxes, all), (1, 2), "{rpc} {code}: {}", node.describe());
        }
    }
}

#[tokio::test]
async fn events_of_failed_starts_name_the_container() {
    let node = VirtualNode::started();
    // The sandbox is the first object in the runtime.
    let id = format!("{:08x}{:056x}", 2, 0);
    let broken = Fault::Fail(Code::Unknown, format!("failed to start task \"{id}\""));
    node.runtime.inject(Injection::new(Rpc::StartContainer, broken).times(1));
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let all = node.views().events.all();
    let reported: Vec<&str> =
        all.iter().filter(|one| one.event.reason == "Failed").map(|one| one.event.message.as_str()).collect();
    assert_eq!(reported, ["Error: failed to start task \"main\""]);
}

#[tokio::test]
async fn stop_with_lost_answer_still_ends_the_pod() {
    for code in [Code::Unavailable, Code::DeadlineExceeded] {
        let node = VirtualNode::started();
        node.write("a.json", &pod("a", "uid-a", &["main", "side"]));
        node.until_running("uid-a").await;
        node.runtime.inject(Injection::new(Rpc::StopContainer, Fault::LoseAnswer(code)).times(1));
        node.runtime.inject(Injection::new(Rpc::StopPodSandbox, Fault::LoseAnswer(code)).times(1));
        node.remove("a.json");
        node.until_gone("uid-a").await;
        node.assert_no_violations();
    }
}

#[tokio::test]
async fn unobservable_pod_does_not_block_others() {
    let mut node = VirtualNode::new();
    // Longer than every timeout, so that a wait for the stuck pod is detected.
    node.pleg.observe_timeout = TIMEOUT * 10;
    node.start_agent();
    node.write("stuck.json", &pod("stuck", "uid-stuck", &["main"]));
    node.until_running("uid-stuck").await;
    let stuck = [Rpc::PodSandboxStatus, Rpc::ContainerStatus]
        .map(|rpc| node.runtime.inject(Injection::new(rpc, Fault::Hang).on("uid-stuck")));
    node.runtime.exit_container(&node.running("uid-stuck", "main"), Exit::code(1));
    for index in 0..20 {
        node.write(&format!("{index}.json"), &pod(&format!("p{index}"), &format!("uid-{index}"), &["main"]));
    }
    for index in 0..20 {
        node.until_running(&format!("uid-{index}")).await;
    }
    assert!(stuck.iter().any(|injected| injected.hits() > 0), "the stuck pod was not looked at");
    stuck.iter().for_each(Injected::release);
    node.until_running("uid-stuck").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn sandboxes_that_hang_do_not_delay_other_pods() {
    const HANGING: usize = 70;
    let mut node = VirtualNode::new();
    let hanging: Vec<Injected> = (0..HANGING)
        .map(|index| {
            node.runtime.inject(Injection::new(Rpc::RunPodSandbox, Fault::Hang).on(format!("uid-h{index}")))
        })
        .collect();
    for index in 0..HANGING {
        node.write(
            &format!("h{index}.json"),
            &pod(&format!("h{index}"), &format!("uid-h{index}"), &["main"]),
        );
    }
    node.start_agent();
    // More calls hang than each limit of the client allows.
    for injected in &hanging {
        tokio::time::timeout(TIMEOUT, injected.wait_hits(1)).await.unwrap();
    }
    let mut host_network = pod("network", "uid-network", &["main"]);
    host_network["spec"]["hostNetwork"] = json!(true);
    let mut critical = pod("critical", "uid-critical", &["main"]);
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    node.write("network.json", &host_network);
    node.write("critical.json", &critical);
    node.write("ordinary.json", &pod("ordinary", "uid-ordinary", &["main"]));
    for uid in ["uid-network", "uid-critical", "uid-ordinary"] {
        node.until_running(uid).await;
    }
    hanging.iter().for_each(Injected::release);
    for index in 0..HANGING {
        node.until_running(&format!("uid-h{index}")).await;
    }
    node.assert_no_violations();
}

#[tokio::test]
async fn cleanup_that_hangs_does_not_delay_other_pods() {
    let node = VirtualNode::started();
    for name in ["stuck", "other"] {
        node.write(&format!("{name}.json"), &pod(name, &format!("uid-{name}"), &["main"]));
    }
    node.until_running("uid-stuck").await;
    node.until_running("uid-other").await;
    let hanging = node.runtime.inject(Injection::new(Rpc::RemoveContainer, Fault::Hang).on("uid-stuck"));
    node.remove("stuck.json");
    tokio::time::timeout(TIMEOUT, hanging.wait_hits(1)).await.unwrap();
    node.remove("other.json");
    node.until_gone("uid-other").await;
    hanging.release();
    node.until_gone("uid-stuck").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn missing_sandbox_status_is_reported() {
    let node = VirtualNode::started();
    let refusal = Fault::Fail(Code::Unknown, "why".to_owned());
    node.runtime.inject(Injection::new(Rpc::PodSandboxStatus, refusal).on("uid-a"));
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    let reported = |reason: &str| {
        let all = node.views().events.all();
        all.into_iter().find(|series| series.event.reason == reason).map(|series| series.event.message)
    };
    node.until("both failures are reported", |_| {
        reported("FailedPodSandBoxStatus").is_some() && reported("FailedSync").is_some()
    })
    .await;
    assert_eq!(
        reported("FailedPodSandBoxStatus").unwrap(),
        "Unable to get pod sandbox status: rpc error: code = Unknown desc = why"
    );
    let message = reported("FailedSync").unwrap();
    assert!(message.starts_with("error determining status: ") && message.contains("why"), "{message}");
    node.runtime.clear_faults();
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn pods_are_restored_before_a_slow_source_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut node = VirtualNode::new();
    node.http = Some(format!("http://{}/pods", silent.local_addr().unwrap()));
    // A source that answers only once.
    let body = pod("from-url", "uid-url", &["main"]).to_string();
    let answering = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = silent.accept().await.unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).await.unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        (silent, stream)
    });
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.start_agent();
    node.until_running("uid-a").await;
    node.until_running("uid-url").await;
    let _silent = answering.await.unwrap();
    let running = node.running("uid-url", "main");
    node.kill_agent().await;
    node.runtime.exit_container(&running, Exit::code(7));
    // The source does not answer; the pod is restored from the checkpoint and restarted when it exits.
    node.start_agent();
    let status = node
        .until_status("uid-url", |status| containers(status).iter().any(|one| one.restart_count == 1))
        .await;
    let last = containers(&status)[0].last_state.as_ref().and_then(|state| state.terminated.as_ref());
    assert_eq!(last.map(|ended| ended.exit_code), Some(7));
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn orphans_are_stopped_only_after_every_source_has_delivered() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    node.kill_agent().await;
    // A pod without a source or checkpoint.
    node.remove("a.json");
    std::fs::remove_dir_all(node.path("state")).unwrap();
    node.http = Some(format!("http://{}/pods", silent.local_addr().unwrap()));
    node.runtime.clear_calls();
    node.start_agent();
    // Three sweeps pass, one every two seconds, while the URL does not answer.
    let observed = tokio::time::timeout(
        Duration::from_secs(6),
        node.runtime
            .wait_until(|state| state.count(Rpc::StopContainer) + state.count(Rpc::StopPodSandbox) > 0),
    );
    assert!(observed.await.is_err(), "the pod was stopped too early: {}", node.describe());
    let answering = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = silent.accept().await.unwrap();
            // Closing a connection with an unread request resets it and loses the answer.
            let _ = stream.read(&mut [0; 1024]).await;
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
        }
    });
    node.kill_agent().await;
    node.start_agent();
    node.until_gone("uid-a").await;
    answering.abort();
    node.assert_no_violations();
}

#[tokio::test]
async fn unreadable_manifest_folder_changes_nothing() {
    let mut node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let main = node.running("uid-a", "main");
    node.kill_agent().await;
    // Root can read everything, so the folder is replaced by a file.
    std::fs::rename(node.path("manifests"), node.path("kept")).unwrap();
    std::os::unix::fs::symlink(node.path("manifests"), node.path("manifests")).unwrap();
    node.runtime.clear_calls();
    node.start_agent();
    node.until_running("uid-a").await;
    node.until("the runtime was listed", |state| state.count(Rpc::ListPodSandbox) > 1).await;
    assert_eq!(node.running("uid-a", "main"), main);
    std::fs::remove_file(node.path("manifests")).unwrap();
    std::fs::rename(node.path("kept"), node.path("manifests")).unwrap();
    node.restart_agent().await;
    node.until_running("uid-a").await;
    assert_eq!(node.running("uid-a", "main"), main);
    node.assert_no_violations();
}

#[tokio::test]
async fn broken_event_stream_falls_back_to_polling_and_reconnects() {
    let node = VirtualNode::started();
    node.until("the stream is open", |state| state.count(Rpc::GetContainerEvents) > 0).await;
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let refused = Fault::Fail(Code::Unavailable, "cut by the test".to_owned());
    let refused = node.runtime.inject(Injection::new(Rpc::GetContainerEvents, refused));
    node.runtime.cut_events(Some(&Status::unavailable("cut by the test")));
    node.runtime.exit_container(&node.running("uid-a", "main"), Exit::code(9));
    node.until_status("uid-a", |status| containers(status).iter().any(|one| one.restart_count == 1)).await;
    let asked = node.runtime.count(Rpc::GetContainerEvents);
    refused.release();
    node.until("the stream is opened again", |state| state.count(Rpc::GetContainerEvents) > asked).await;
    node.assert_no_violations();
}

#[tokio::test]
async fn polls_without_an_event_stream() {
    let mut node = VirtualNode::new();
    node.runtime.set_event_stream(EventStream::Unimplemented);
    node.start_agent();
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["restartPolicy"] = json!("Never");
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    node.runtime.exit_container(&node.running("uid-a", "main"), Exit::code(0));
    node.until_status("uid-a", |status| status.phase.as_deref() == Some("Succeeded")).await;
    node.assert_no_violations();
}

#[tokio::test]
async fn failed_pull_soon_shows_backoff() {
    let node = VirtualNode::started();
    let away = Fault::Fail(Code::Unavailable, "registry is away".to_owned());
    node.runtime.inject(Injection::new(Rpc::PullImage, away));
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    // ErrImagePull is shown only briefly and may be missed; the backoff message still names it.
    let message = "Back-off pulling image \"example.com/main:1\": ErrImagePull: rpc error: code = Unavailable desc = registry is away";
    let backs_off = |one: &k8s_openapi::api::core::v1::ContainerStatus| {
        let waiting = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| {
            waiting.reason.as_deref() == Some("ImagePullBackOff")
                && waiting.message.as_deref() == Some(message)
        })
    };
    node.until_status("uid-a", |status| containers(status).iter().any(backs_off)).await;
    assert_eq!(node.runtime.count(Rpc::PullImage), 1, "it is shown before the next pull");
    node.assert_no_violations();
}

#[tokio::test]
async fn only_host_network_pods_start_without_network() {
    let mut node = VirtualNode::new();
    node.runtime.set_network_ready(false);
    node.start_agent();
    let mut on_host = pod("host", "uid-host", &["main"]);
    on_host["spec"]["hostNetwork"] = json!(true);
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.write("host.json", &on_host);
    node.until_running("uid-host").await;
    let reported = || async {
        let events = node.views().events.all();
        let event = events.iter().find(|series| series.event.reason == "NetworkNotReady");
        event.map(|series| series.event.message.clone()).ok_or_else(|| anyhow::anyhow!("not reported yet"))
    };
    let message = eventually("the event", TIMEOUT, reported).await.unwrap();
    let expected = "network is not ready: container runtime network not ready: NetworkReady=false \
                    reason:NetworkReadyWasSwitchedOff message:switched off by the test";
    assert_eq!(message, expected);
    assert!(node.containers("uid-a").is_empty(), "{}", node.describe());
    node.runtime.set_network_ready(true);
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn container_that_survives_its_stop_is_stopped_again() {
    let node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let lies = [Rpc::StopContainer, Rpc::StopPodSandbox]
        .map(|rpc| node.runtime.inject(Injection::new(rpc, Fault::ClaimStopped).times(1)));
    node.remove("a.json");
    node.until_gone("uid-a").await;
    assert!(lies.iter().all(|lie| lie.hits() == 1));
    assert!(node.runtime.count(Rpc::StopContainer) >= 2, "{}", node.describe());
    node.assert_no_violations();
}

#[tokio::test]
async fn follows_url_redirects() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut node = VirtualNode::new();
    node.http = Some(format!("http://{}/old", server.local_addr().unwrap()));
    let body = pod("from-url", "uid-url", &["main"]).to_string();
    let answering = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            let answer = if request[..length].starts_with(b"GET /new ") {
                let length = body.len();
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
            } else {
                "HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_owned()
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    node.start_agent();
    node.until_running("uid-url").await;
    answering.abort();
    node.assert_no_violations();
}

#[tokio::test]
async fn reads_pods_through_the_configured_proxy() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = format!("http://ann:secret@{}", proxy.local_addr().unwrap());
    let mut node = VirtualNode::new();
    node.http = Some("http://pods.invalid/all".to_owned());
    node.proxies =
        values::proxies::Proxies::from_variables(|name| (name == "HTTP_PROXY").then(|| place.clone()));
    let body = pod("from-url", "uid-url", &["main"]).to_string();
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = proxy.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let is_whole = request.starts_with("get http://pods.invalid/all http/1.1")
                && request.contains("proxy-authorization: basic yw5uonnly3jlda==");
            let (code, body) = if is_whole { ("200 OK", body.as_str()) } else { ("407 No", "") };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {code}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    node.start_agent();
    node.until_running("uid-url").await;
    answering.abort();
    node.assert_no_violations();
}

#[tokio::test]
async fn reports_unobservable_pod_and_missing_folder() {
    let node = VirtualNode::started();
    node.write("a.json", &pod("a", "uid-a", &["main"]));
    node.until_running("uid-a").await;
    let blind = Fault::Fail(Code::Unknown, "cannot look".to_owned());
    let blind = [Rpc::PodSandboxStatus, Rpc::ContainerStatus]
        .map(|rpc| node.runtime.inject(Injection::new(rpc, blind.clone()).on("uid-a")));
    node.runtime.exit_container(&node.running("uid-a", "main"), Exit::code(1));
    // A file blocks the path of the pod's folder.
    std::fs::write(node.path("root").join("pods").join("uid-b"), "").unwrap();
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    for (reason, beginning) in
        [("FailedSync", "error determining status: "), ("Failed", "error making pod data directories: ")]
    {
        let reported = || async {
            let events = node.views().events.all();
            let found = events
                .iter()
                .any(|series| series.event.reason == reason && series.event.message.starts_with(beginning));
            anyhow::ensure!(found, "{reason} is not reported yet");
            Ok(())
        };
        eventually(reason, TIMEOUT, reported).await.unwrap();
    }
    blind.iter().for_each(Injected::release);
    std::fs::remove_file(node.path("root").join("pods").join("uid-b")).unwrap();
    node.until_running("uid-a").await;
    node.until_running("uid-b").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn stale_sweep_order_does_not_touch_a_readded_pod() {
    let mut node = VirtualNode::started();
    node.write("b.json", &pod("b", "uid-b", &["main"]));
    node.until_running("uid-b").await;
    node.kill_agent().await;
    // The next agent finds a dead pod, and the folder of an earlier one.
    node.remove("b.json");
    let sandbox = node.runtime.read(|state| state.ready_sandbox("uid-b").unwrap().id.clone());
    node.runtime.kill_sandbox(&sandbox);
    let volume = node.path("root/pods/uid-a/volumes/kubernetes.io~empty-dir/data");
    std::fs::create_dir_all(&volume).unwrap();
    let removal = node.runtime.inject(Injection::new(Rpc::RemovePodSandbox, Fault::Hang).on("uid-b"));
    node.start_agent();
    tokio::time::timeout(TIMEOUT, removal.wait_hits(1)).await.unwrap();
    // It is added again while the order is pending, perhaps while its folder is removed.
    let mut manifest = pod("a", "uid-a", &["main"]);
    manifest["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    node.write("a.json", &manifest);
    node.until_running("uid-a").await;
    std::fs::write(volume.join("written"), "x").unwrap();
    removal.release();
    node.until_gone("uid-b").await;
    assert!(volume.join("written").exists(), "{}", node.describe());
    node.until_running("uid-a").await;
    node.assert_no_violations();
}

#[tokio::test]
async fn pod_readded_during_its_sweep_runs_again() {
    let mut node = VirtualNode::started();
    let mut once = pod("a", "uid-a", &["main"]);
    once["spec"]["restartPolicy"] = json!("Never");
    node.write("a.json", &once);
    node.until_running("uid-a").await;
    node.kill_agent().await;
    node.remove("a.json");
    let sandbox = node.runtime.read(|state| state.ready_sandbox("uid-a").unwrap().id.clone());
    node.runtime.kill_sandbox(&sandbox);
    let removal = node.runtime.inject(Injection::new(Rpc::RemovePodSandbox, Fault::Hang).on("uid-a"));
    node.start_agent();
    tokio::time::timeout(TIMEOUT, removal.wait_hits(1)).await.unwrap();
    // The containers are removed; only a stale observation still shows them, with which the pod would count as finished.
    node.write("a.json", &once);
    node.until_status("uid-a", |_| true).await;
    removal.release();
    node.until_running("uid-a").await;
    node.assert_no_violations();
}
