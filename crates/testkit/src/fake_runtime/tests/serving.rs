use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::super::{ContainerBehaviour, Exit, Fault, Injection, Rpc};
use super::*;

#[tokio::test]
async fn pods_survive_runtime_restart() {
    let (mut fake, mut client) = node();
    let (_, id) = client.running("a").await;
    fake.stop_serving().await.unwrap();
    assert!(client.status(&id).await.is_err());
    fake.exit_container(&id, Exit::code(5));
    fake.serve_again().unwrap();
    // The same client reconnects.
    let status = client.status(&id).await.unwrap();
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 5));
}

#[tokio::test]
async fn killed_runtime_breaks_calls_and_streams() {
    let (mut fake, mut client) = node();
    let mut events = client.runtime.get_container_events(GetEventsRequest {}).await.unwrap().into_inner();
    let hang = fake.inject(Injection::new(Rpc::RunPodSandbox, Fault::Hang));
    let mut other = client.clone();
    let call = tokio::spawn(async move { other.run("a", 0).await });
    hang.wait_hits(1).await;
    fake.stop_serving().await.unwrap();
    assert!(call.await.unwrap().is_err());
    assert!(events.message().await.is_err());
    hang.release();
    fake.serve_again().unwrap();
    assert!(client.sandboxes(PodSandboxFilter::default()).await.is_empty(), "the broken call did no work");
}

#[tokio::test]
async fn replaces_stale_socket_and_removes_it_on_stop() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("cri.sock");
    std::fs::write(&socket, "").unwrap();
    let fake = FakeRuntime::start(&socket).unwrap();
    Client::of(&fake).run("a", 0).await.unwrap();
    fake.stop().await.unwrap();
    assert!(!socket.exists());
    drop(FakeRuntime::start(&socket).unwrap());
    assert!(!socket.exists());
}

#[tokio::test]
async fn test_can_control_the_clock() {
    let time = Arc::new(AtomicI64::new(100));
    let shared = time.clone();
    let fake = FakeRuntime::start_in_memory(Arc::new(move || shared.load(Ordering::SeqCst))).unwrap();
    fake.add_image(IMAGE);
    fake.set_behaviour(IMAGE, ContainerBehaviour::exits_after(Duration::from_nanos(1_000_000_000_000), 1));
    let mut client = Client::of(&fake);
    let (_, id) = client.running("a").await;
    assert_eq!(client.status(&id).await.unwrap().started_at, 100);
    assert_eq!(fake.calls()[0].at, 100);
    time.store(1_000_000_000_200, Ordering::SeqCst);
    fake.settle();
    let status = client.status(&id).await.unwrap();
    assert_eq!((status.state(), status.finished_at), (ContainerState::ContainerExited, 1_000_000_000_100));
}
