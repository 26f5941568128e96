//! Deadlines, reconnection, message sizes and list streaming of the CRI client.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use cri::faults::{Fault as CallFault, FaultRule, Faults};
use cri::{CriClient, DEFAULT_REQUEST_TIMEOUT, Endpoint};
use futures::StreamExt;
use model::{ContainerSpec, ContainerState, ImageSpec, ListMark, PodLists, RuntimeEventKind, SandboxSpec};
use ports::runtime::{
    Containers, Images, Lists, RuntimeError, RuntimeErrorKind, RuntimeService, RuntimeStatisticsSource,
    Sandboxes,
};
use testkit::fake_runtime::{
    ContainerBehaviour, EventStream, ExecOutcome, FakeRuntime, Fault, Injection, Rpc, tokio_clock,
};
use tokio::time::Instant;
use tonic::{Code, Status};

const IMAGE: &str = "web:1";

fn in_memory() -> (FakeRuntime, CriClient) {
    let fake = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
    fake.add_image(IMAGE);
    let channel = fake.channel();
    let client = CriClient::from_channels(channel.clone(), channel, DEFAULT_REQUEST_TIMEOUT);
    (fake, client)
}

fn pod(uid: &str) -> SandboxSpec {
    SandboxSpec {
        name: uid.into(),
        namespace: "default".into(),
        uid: uid.into(),
        labels: [(model::labels::POD_UID.to_owned(), uid.to_owned())].into(),
        ..Default::default()
    }
}

fn image() -> ImageSpec {
    ImageSpec { image: IMAGE.into(), ..Default::default() }
}

async fn start_container(client: &CriClient, uid: &str) -> model::ContainerId {
    let sandbox = client.run_sandbox(&pod(uid)).await.unwrap();
    let labels = pod(uid).labels;
    let spec = ContainerSpec { name: "main".into(), image: image(), labels, ..Default::default() };
    let id = client.create_container(&sandbox, &spec, &pod(uid)).await.unwrap();
    client.start_container(&id).await.unwrap();
    id
}

/// Returns the seconds after which a call fails with a timeout.
async fn seconds_until_timeout<T: std::fmt::Debug>(
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> u64 {
    let before = Instant::now();
    let error = call.await.unwrap_err();
    assert_eq!(error.kind, RuntimeErrorKind::DeadlineExceeded, "{error}");
    before.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn each_call_has_its_deadline() {
    let (fake, client) = in_memory();
    let id = start_container(&client, "a").await;
    for rpc in [Rpc::Version, Rpc::ListContainers, Rpc::RunPodSandbox, Rpc::StopContainer, Rpc::ImageStatus] {
        fake.inject(Injection::new(rpc, Fault::Hang));
    }
    assert_eq!(seconds_until_timeout(client.version()).await, 120);
    assert_eq!(seconds_until_timeout(client.list_containers(None)).await, 120);
    assert_eq!(seconds_until_timeout(client.image_status(&image())).await, 120);
    assert_eq!(seconds_until_timeout(client.run_sandbox(&pod("b"))).await, 240);
    assert_eq!(seconds_until_timeout(client.stop_container(&id, Duration::from_secs(30))).await, 150);
}

#[tokio::test(start_paused = true)]
async fn image_pull_has_no_deadline() {
    let (fake, client) = in_memory();
    fake.inject(Injection::new(Rpc::PullImage, Fault::Delay(Duration::from_secs(5 * 3600))));
    client.pull_image(&image(), None, &pod("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_deadline_includes_grace_period() {
    let (fake, client) = in_memory();
    fake.set_behaviour(IMAGE, ContainerBehaviour::runs_forever().ignoring_stop());
    let id = start_container(&client, "a").await;
    let before = Instant::now();
    client.stop_container(&id, Duration::from_secs(600)).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), 600);
    assert_eq!(client.container_status(&id).await.unwrap().exit_code, 137);
}

#[tokio::test(start_paused = true)]
async fn deadline_status_from_runtime_is_deadline_exceeded() {
    let (fake, client) = in_memory();
    fake.inject(Injection::new(Rpc::Version, Fault::Fail(Code::DeadlineExceeded, "slow".into())).times(1));
    assert_eq!(seconds_until_timeout(client.version()).await, 0);
}

#[tokio::test(start_paused = true)]
async fn missing_calls_of_old_runtime_are_unimplemented() {
    let (fake, client) = in_memory();
    fake.set_cgroup_driver(None);
    fake.set_event_stream(EventStream::Unimplemented);
    let error = client.cgroup_driver().await.unwrap_err();
    assert_eq!((error.operation, error.kind), ("runtime_config", RuntimeErrorKind::Unimplemented));
    let error = client.events().await.err().unwrap();
    assert_eq!((error.operation, error.kind), ("get_container_events", RuntimeErrorKind::Unimplemented));
}

#[tokio::test(start_paused = true)]
async fn event_stream_opens_without_response_headers() {
    let (fake, client) = in_memory();
    // Simulates a server that sends its headers only with the first event.
    let hang = fake.inject(Injection::new(Rpc::GetContainerEvents, Fault::Hang));
    let mut events = client.events().await.unwrap();
    hang.release();
    let next = tokio::spawn(async move { events.next().await });
    fake.wait_until(|world| world.count(Rpc::GetContainerEvents) == 1).await;
    while fake.open_event_streams() == 0 {
        tokio::task::yield_now().await;
    }
    client.run_sandbox(&pod("a")).await.unwrap();
    let event = next.await.unwrap().unwrap().unwrap();
    assert_eq!((event.kind, event.pod_uid.unwrap().as_str()), (RuntimeEventKind::Created, "a"));
}

#[tokio::test(start_paused = true)]
async fn interrupted_event_stream_ends_with_error() {
    let (fake, client) = in_memory();
    let mut events = client.events().await.unwrap();
    fake.cut_events(Some(&Status::unavailable("restarting")));
    assert_eq!(events.next().await.unwrap().unwrap_err().kind, RuntimeErrorKind::Unavailable);
    assert!(events.next().await.is_none());
}

fn on_socket() -> (FakeRuntime, CriClient, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    let fake = FakeRuntime::start(&socket).unwrap();
    let endpoint = socket.to_string_lossy().parse::<Endpoint>().unwrap();
    (fake, CriClient::new(&endpoint, DEFAULT_REQUEST_TIMEOUT), folder)
}

#[tokio::test]
async fn reconnects_to_restarted_runtime() {
    let (mut fake, client, _folder) = on_socket();
    client.version().await.unwrap();
    fake.stop_serving().await.unwrap();
    for _ in 0..3 {
        let error = client.version().await.unwrap_err();
        assert_eq!(error.kind, RuntimeErrorKind::Unavailable, "{error}");
    }
    fake.serve_again().unwrap();
    // The backoff after the failures above is 100 ms; calls until then fail immediately.
    let reconnected = async {
        while client.version().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reconnected).await.unwrap();
}

#[tokio::test]
async fn calls_in_flight_fail_as_unavailable_when_the_runtime_stops() {
    let (mut fake, client, _folder) = on_socket();
    let hang = fake.inject(Injection::new(Rpc::ListPodSandbox, Fault::Hang));
    let mut events = client.events().await.unwrap();
    let call = tokio::spawn(async move { client.list_sandboxes(None).await });
    hang.wait_hits(1).await;
    fake.stop_serving().await.unwrap();
    assert_eq!(call.await.unwrap().unwrap_err().kind, RuntimeErrorKind::Unavailable);
    assert_eq!(events.next().await.unwrap().unwrap_err().kind, RuntimeErrorKind::Unavailable);
}

#[tokio::test]
async fn missing_socket_is_unavailable_with_path_in_message() {
    let endpoint = "unix:///nowhere/cri.sock".parse::<Endpoint>().unwrap();
    let error = CriClient::new(&endpoint, DEFAULT_REQUEST_TIMEOUT).version().await.unwrap_err();
    assert_eq!((error.operation, error.kind), ("version", RuntimeErrorKind::Unavailable));
    assert!(error.message.contains("/nowhere/cri.sock"), "{error}");
}

#[tokio::test]
async fn receives_lists_of_several_megabytes() {
    let (_fake, client, _folder) = on_socket();
    for number in 0..100 {
        let mut pod = pod(&format!("uid-{number}"));
        pod.annotations = [("fill".to_owned(), "x".repeat(80_000))].into();
        client.run_sandbox(&pod).await.unwrap();
    }
    assert_eq!(client.list_sandboxes(None).await.unwrap().len(), 100);
}

async fn list_changed(
    client: &CriClient,
    previous: Option<ListMark>,
) -> (usize, Vec<ContainerState>, Option<ListMark>) {
    match client.list_pods(previous).await.unwrap() {
        PodLists::Same => panic!("expected a changed list"),
        PodLists::These { sandboxes, containers, mark } => {
            (sandboxes.len(), containers.iter().map(|container| container.state).collect(), mark)
        }
    }
}

#[tokio::test]
async fn unchanged_lists_are_not_decoded() {
    let (_fake, client) = in_memory();
    let (sandboxes, containers, empty) = list_changed(&client, None).await;
    assert_eq!((sandboxes, containers.len()), (0, 0));
    assert_eq!(client.list_pods(empty).await.unwrap(), PodLists::Same);

    let id = start_container(&client, "a").await;
    start_container(&client, "b").await;
    let (sandboxes, containers, two) = list_changed(&client, empty).await;
    assert_eq!((sandboxes, containers), (2, vec![ContainerState::Running; 2]));
    for _ in 0..3 {
        assert_eq!(client.list_pods(two).await.unwrap(), PodLists::Same);
    }
    // Without a previous mark, the complete lists are returned.
    assert_eq!(list_changed(&client, None).await.0, 2);

    client.stop_container(&id, Duration::ZERO).await.unwrap();
    let (_, containers, stopped) = list_changed(&client, two).await;
    assert!(containers.contains(&ContainerState::Exited) && containers.contains(&ContainerState::Running));
    client.remove_container(&id).await.unwrap();
    assert_eq!(list_changed(&client, stopped).await.1, [ContainerState::Running]);
}

#[tokio::test(start_paused = true)]
async fn uses_streaming_list_calls_if_supported() {
    let (fake, client) = in_memory();
    let client = client.with_list_streaming();
    fake.set_lists_in_pieces(true);
    fake.add_image("other:1");
    for uid in ["a", "b"] {
        start_container(&client, uid).await;
    }
    let PodLists::These { sandboxes, containers, mark } = client.list_pods(None).await.unwrap() else {
        panic!("expected complete lists");
    };
    assert_eq!((sandboxes.len(), containers.len()), (2, 2));
    assert!(matches!(client.list_pods(mark).await.unwrap(), PodLists::Same));
    assert_eq!(client.list_containers(Some(&"a".into())).await.unwrap().len(), 1);
    assert_eq!(client.list_sandboxes(Some(&"b".into())).await.unwrap().len(), 1);
    assert_eq!(client.list_images().await.unwrap().len(), 2);
    client.writable_layers().await.unwrap();
    assert_eq!(fake.count(Rpc::StreamContainerStats), 1);
    for unary in [Rpc::ListContainers, Rpc::ListPodSandbox, Rpc::ListImages, Rpc::ListContainerStats] {
        assert_eq!(fake.count(unary), 0, "{unary}");
    }
}

#[tokio::test(start_paused = true)]
async fn falls_back_to_unary_list_calls_after_one_attempt() {
    let (fake, client) = in_memory();
    let client = client.with_list_streaming();
    start_container(&client, "a").await;
    for _ in 0..2 {
        assert_eq!(client.list_containers(None).await.unwrap().len(), 1);
        assert_eq!(client.list_images().await.unwrap().len(), 1);
    }
    assert_eq!((fake.count(Rpc::StreamContainers), fake.count(Rpc::ListContainers)), (1, 2));
    assert_eq!((fake.count(Rpc::StreamImages), fake.count(Rpc::ListImages)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn failed_list_stream_is_an_error_and_does_not_disable_streaming() {
    let (fake, client) = in_memory();
    let client = client.with_list_streaming();
    fake.set_lists_in_pieces(true);
    fake.inject(Injection::new(Rpc::StreamContainers, Fault::Fail(Code::Internal, "broken".into())).times(1));
    assert!(client.list_containers(None).await.is_err());
    assert!(client.list_containers(None).await.is_ok());
    assert_eq!((fake.count(Rpc::StreamContainers), fake.count(Rpc::ListContainers)), (2, 0));
}

#[tokio::test]
async fn output_of_commands_is_cut_and_failures_pass_through() {
    const KEPT: usize = 10 * 1024;
    let (fake, client) = in_memory();
    let id = start_container(&client, "a").await;
    fake.set_exec(|_, command| ExecOutcome {
        code: 3,
        stdout: vec![b'o'; command[0].parse().unwrap()],
        stderr: vec![b'e'; 5],
        ..ExecOutcome::default()
    });
    for (length, expected) in [(0, 0), (7, 7), (KEPT, KEPT), (KEPT + 1, KEPT), (14 << 20, KEPT)] {
        let output = client.exec(&id, &[length.to_string()], Duration::ZERO).await.unwrap();
        assert_eq!(
            (output.exit_code, output.stdout.len(), output.stderr.len()),
            (3, expected, 5),
            "{length}"
        );
    }
    let error = client.exec(&"missing".into(), &["0".to_owned()], Duration::ZERO).await.unwrap_err();
    assert_eq!(error.kind, RuntimeErrorKind::NotFound);
}

/// A client whose calls have faults.
fn faulty(rules: Vec<FaultRule>) -> (FakeRuntime, CriClient) {
    let fake = FakeRuntime::start_in_memory(tokio_clock(1_000)).unwrap();
    fake.add_image(IMAGE);
    let (channel, faults) = (fake.channel(), Faults::new(rules));
    let client = CriClient::with_faults(channel.clone(), channel, DEFAULT_REQUEST_TIMEOUT, &faults);
    (fake, client)
}

fn on_call(call: &str, fault: CallFault) -> FaultRule {
    FaultRule { call: Some(call.to_owned()), pod: None, skip: 0, count: None, percent: 100, fault }
}

#[tokio::test(start_paused = true)]
async fn injected_faults_delay_fail_and_hang_calls() {
    let error = CallFault::Error { code: Code::Internal, message: "injected".to_owned() };
    let (fake, client) = faulty(vec![
        FaultRule { count: Some(1), ..on_call("Version", CallFault::Delay(Duration::from_secs(7))) },
        on_call("ListImages", error),
        on_call("ImageFsInfo", CallFault::Hang),
    ]);
    let begun = Instant::now();
    client.version().await.unwrap();
    client.version().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 7);
    assert_eq!(client.list_images().await.unwrap_err().message, "injected");
    seconds_until_timeout(client.image_filesystems()).await;
    assert_eq!((fake.count(Rpc::ListImages), fake.count(Rpc::ImageFsInfo)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn injected_loss_of_an_answer_keeps_the_work() {
    let lost = CallFault::LoseAnswer { code: Code::Unavailable };
    let (fake, client) = faulty(vec![on_call("RunPodSandbox", lost)]);
    assert!(client.run_sandbox(&pod("a")).await.unwrap_err().message.contains("answer was lost"));
    assert_eq!(fake.read(|state| state.sandboxes().count()), 1);
}

#[tokio::test(start_paused = true)]
async fn injected_faults_of_a_pod_spare_others() {
    let refused = CallFault::Error { code: Code::Internal, message: "injected".to_owned() };
    let by_uid = FaultRule { pod: Some("a".to_owned()), ..on_call("StartContainer", refused.clone()) };
    let by_name = FaultRule { pod: Some("default/b".to_owned()), ..on_call("StopPodSandbox", refused) };
    let (_fake, client) = faulty(vec![by_uid, by_name]);
    let [sandbox_a, sandbox_b] =
        [client.run_sandbox(&pod("a")).await.unwrap(), client.run_sandbox(&pod("b")).await.unwrap()];
    let spec = ContainerSpec { name: "main".into(), image: image(), ..Default::default() };
    let a = client.create_container(&sandbox_a, &spec, &pod("a")).await.unwrap();
    let b = client.create_container(&sandbox_b, &spec, &pod("b")).await.unwrap();
    assert!(client.start_container(&a).await.is_err());
    client.start_container(&b).await.unwrap();
    client.stop_sandbox(&sandbox_a).await.unwrap();
    assert!(client.stop_sandbox(&sandbox_b).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn injected_faults_of_the_event_stream_duplicate_reorder_and_cut_it() {
    // A new sandbox has two events.
    for (fault, expected) in [
        (CallFault::DuplicateMessages, vec!["Created", "Created", "Started", "Started"]),
        (CallFault::ReorderMessages, vec!["Started", "Created"]),
        (CallFault::CutStream { after: 1 }, vec!["Created", "cut"]),
    ] {
        let (fake, client) = faulty(vec![on_call("GetContainerEvents", fault.clone())]);
        let mut events = client.events().await.unwrap();
        // The stream is opened when it is read.
        let reading = tokio::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..expected.len() {
                match events.next().await.unwrap() {
                    Ok(event) => seen.push(format!("{:?}", event.kind)),
                    Err(_) => seen.push("cut".to_owned()),
                }
            }
            (seen, expected)
        });
        while fake.open_event_streams() == 0 {
            tokio::task::yield_now().await;
        }
        client.run_sandbox(&pod("a")).await.unwrap();
        let (seen, expected) = reading.await.unwrap();
        assert_eq!(seen, expected, "{fault:?}");
    }
}
