use std::time::Duration;

use super::super::{Fault, Injection, Rpc};
use super::*;

#[tokio::test]
async fn echoes_requested_api_version() {
    let (_fake, mut client) = node();
    let answer =
        client.runtime.version(VersionRequest { version: "0.1.0".into() }).await.unwrap().into_inner();
    assert_eq!((answer.version.as_str(), answer.runtime_api_version.as_str()), ("0.1.0", "v1"));
}

#[tokio::test]
async fn conditions_can_be_changed() {
    let (fake, mut client) = node();
    let mut conditions = async || {
        let answer = client.runtime.status(StatusRequest::default()).await.unwrap().into_inner();
        let found = answer.status.unwrap().conditions.into_iter();
        found.map(|one| (one.r#type, one.status)).collect::<Vec<_>>()
    };
    let named =
        |runtime, network| [("RuntimeReady".to_owned(), runtime), ("NetworkReady".to_owned(), network)];
    assert_eq!(conditions().await, named(true, true));
    fake.set_network_ready(false);
    assert_eq!(conditions().await, named(true, false));
    fake.set_runtime_ready(false);
    fake.set_network_ready(true);
    assert_eq!(conditions().await, named(false, true));
}

#[tokio::test]
async fn cgroup_driver_can_be_unimplemented() {
    let (fake, mut client) = node();
    let answer = client.runtime.runtime_config(RuntimeConfigRequest {}).await.unwrap().into_inner();
    assert_eq!(answer.linux.unwrap().cgroup_driver(), CgroupDriver::Cgroupfs);
    fake.set_cgroup_driver(None);
    assert_eq!(code(client.runtime.runtime_config(RuntimeConfigRequest {}).await), Code::Unimplemented);
}

#[tokio::test]
async fn unsupported_calls_are_unimplemented() {
    let (_fake, mut client) = node();
    assert_eq!(code(client.runtime.exec(ExecRequest::default()).await), Code::Unimplemented);
    assert_eq!(code(client.images.stream_images(StreamImagesRequest::default()).await), Code::Unimplemented);
}

#[tokio::test]
async fn journal_records_calls_with_their_subjects() {
    let (fake, mut client) = node();
    let sandbox = client.run("a", 0).await.unwrap();
    let id = client.create_from(&sandbox, container("a", "main", 0)).await.unwrap();
    client.start(&id).await.unwrap();
    let calls = fake.calls();
    let reported = calls
        .iter()
        .map(|call| {
            let subject = &call.subject;
            (call.rpc, subject.id.as_str(), subject.pod_uid.as_str(), subject.container.as_str())
        })
        .collect::<Vec<_>>();
    assert_eq!(
        reported,
        [
            (Rpc::RunPodSandbox, "", "a", ""),
            (Rpc::CreateContainer, "", "a", "main"),
            (Rpc::StartContainer, id.as_str(), "a", "main"),
        ]
    );
    assert!(calls.is_sorted_by_key(|call| call.at));
    assert_eq!(fake.count(Rpc::StartContainer), 1);
    assert_eq!(fake.count(Rpc::StopContainer), 0);
    fake.clear_calls();
    assert!(fake.calls().is_empty() && fake.count(Rpc::StartContainer) == 0);
}

#[tokio::test]
async fn injected_failure_skips_work_for_limited_calls() {
    let (fake, mut client) = node();
    let fault = Fault::Fail(Code::ResourceExhausted, "full".into());
    let injected = fake.inject(Injection::new(Rpc::RunPodSandbox, fault).times(2));
    for _ in 0..2 {
        let error = client.run("a", 0).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::ResourceExhausted, "full"));
    }
    assert_eq!(fake.read(|state| state.sandboxes().count()), 0);
    client.run("a", 0).await.unwrap();
    assert_eq!(injected.hits(), 2);
    assert_eq!(fake.count(Rpc::RunPodSandbox), 3, "failed calls are in the journal");
}

#[tokio::test]
async fn fault_can_be_limited_to_pod_container_or_id() {
    let (fake, mut client) = node();
    let fail = |rpc| Injection::new(rpc, Fault::Fail(Code::Internal, "no".into()));
    fake.inject(fail(Rpc::RunPodSandbox).on("b"));
    fake.inject(fail(Rpc::CreateContainer).on("sidecar"));
    let (sandbox, id) = client.running("a").await;
    assert_eq!(code(client.run("b", 0).await), Code::Internal);
    assert_eq!(code(client.create(&sandbox, "sidecar", 0).await), Code::Internal);
    fake.inject(fail(Rpc::StopContainer).on(id.clone()));
    assert_eq!(code(client.stop(&id, 1).await), Code::Internal);
    fake.clear_faults();
    client.stop(&id, 1).await.unwrap();
}

#[tokio::test]
async fn lost_response_hides_completed_work() {
    let (fake, mut client) = node();
    fake.inject(Injection::new(Rpc::RunPodSandbox, Fault::LoseAnswer(Code::Unavailable)).times(1));
    assert_eq!(code(client.run("a", 0).await), Code::Unavailable);
    assert_eq!(client.sandboxes(PodSandboxFilter::default()).await.len(), 1);
    let (_, id) = client.running("b").await;
    fake.inject(Injection::new(Rpc::StopContainer, Fault::LoseAnswer(Code::DeadlineExceeded)).times(1));
    assert_eq!(code(client.stop(&id, 1).await), Code::DeadlineExceeded);
    assert_eq!(client.status(&id).await.unwrap().state(), ContainerState::ContainerExited);
}

#[tokio::test(start_paused = true)]
async fn delayed_call_works_later() {
    let (fake, mut client) = node_in_memory();
    fake.inject(Injection::new(Rpc::RunPodSandbox, Fault::Delay(Duration::from_secs(3))));
    let before = tokio::time::Instant::now();
    client.run("a", 0).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn hanging_call_blocks_no_other_and_ends_with_its_caller() {
    let (fake, mut client) = node();
    let hang = fake.inject(Injection::new(Rpc::RunPodSandbox, Fault::Hang).on("a"));
    let mut other = client.clone();
    let call = tokio::spawn(async move { other.run("a", 0).await });
    hang.wait_hits(1).await;
    client.run("b", 0).await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // A connection is processed in order: this response proves that the end of the other call was seen.
    client.run("c", 0).await.unwrap();
    hang.release();
    client.run("d", 0).await.unwrap();
    assert!(fake.read(|state| state.ready_sandbox("a").is_none()));
}

#[tokio::test]
async fn held_response_follows_the_work_of_the_selected_call() {
    let (fake, mut client) = node();
    let held = fake.inject(Injection::on_any(Fault::HoldAnswer).sparing(1).times(1));
    client.run("a", 0).await.unwrap();
    let caller = tokio::spawn(async move { client.run("b", 0).await });
    held.wait_hits(1).await;
    fake.wait_until(|state| state.ready_sandbox("b").is_some()).await;
    assert!(!caller.is_finished());
    held.release();
    caller.await.unwrap().unwrap();
}
