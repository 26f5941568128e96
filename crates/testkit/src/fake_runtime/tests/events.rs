use cri::v1::ContainerEventType as Kind;

use super::super::{EventStream, Exit};
use super::*;

type Events = tonic::Streaming<ContainerEventResponse>;

impl Client {
    async fn events(&mut self) -> Result<Events, Status> {
        Ok(self.runtime.get_container_events(GetEventsRequest {}).await?.into_inner())
    }
}

async fn take(events: &mut Events, count: usize) -> Vec<(String, Kind)> {
    let mut taken = Vec::new();
    for _ in 0..count {
        let event = events.message().await.unwrap().unwrap();
        taken.push((event.container_id.clone(), event.container_event_type()));
    }
    taken
}

#[tokio::test]
async fn pod_changes_emit_events_in_order() {
    let (fake, mut client) = node();
    let mut events = client.events().await.unwrap();
    let (sandbox, id) = client.running("a").await;
    fake.exit_container(&id, Exit::code(0));
    client.stop_sandbox(&sandbox).await.unwrap();
    client.remove_sandbox(&sandbox).await.unwrap();
    let expected = [
        (&sandbox, Kind::ContainerCreatedEvent),
        (&sandbox, Kind::ContainerStartedEvent),
        (&id, Kind::ContainerCreatedEvent),
        (&id, Kind::ContainerStartedEvent),
        (&id, Kind::ContainerStoppedEvent),
        (&sandbox, Kind::ContainerStoppedEvent),
        (&id, Kind::ContainerDeletedEvent),
        (&sandbox, Kind::ContainerDeletedEvent),
    ];
    assert_eq!(take(&mut events, 8).await, expected.map(|(id, kind)| (id.clone(), kind)));
}

#[tokio::test]
async fn event_contains_the_resulting_pod_state() {
    let (fake, mut client) = node();
    let (sandbox, id) = client.running("a").await;
    let mut events = client.events().await.unwrap();
    fake.exit_container(&id, Exit::code(6));
    let event = events.message().await.unwrap().unwrap();
    let pod = event.pod_sandbox_status.unwrap();
    assert_eq!((pod.id, pod.metadata.unwrap().uid), (sandbox, "a".to_owned()));
    assert_eq!(event.containers_statuses.len(), 1);
    assert_eq!(event.containers_statuses[0].exit_code, 6);
    assert_eq!(event.created_at, event.containers_statuses[0].finished_at);
}

#[tokio::test]
async fn event_stream_can_be_ended_and_reopened() {
    let (fake, mut client) = node();
    let mut events = client.events().await.unwrap();
    assert_eq!(fake.open_event_streams(), 1);
    fake.cut_events(Some(&Status::unavailable("cut")));
    assert_eq!(code(events.message().await), Code::Unavailable);
    let mut events = client.events().await.unwrap();
    fake.cut_events(None);
    assert!(events.message().await.unwrap().is_none());
    let mut events = client.events().await.unwrap();
    client.run("a", 0).await.unwrap();
    assert_eq!(take(&mut events, 2).await.len(), 2);
}

#[tokio::test]
async fn old_runtime_has_no_event_stream_and_short_statuses() {
    let (fake, mut client) = node();
    let (sandbox, _) = client.running("a").await;
    let request = PodSandboxStatusRequest { pod_sandbox_id: sandbox, verbose: false };
    let full = client.runtime.pod_sandbox_status(request.clone()).await.unwrap().into_inner();
    assert!(full.containers_statuses.len() == 1 && full.timestamp > 0);
    fake.set_event_stream(EventStream::Unimplemented);
    assert_eq!(code(client.events().await), Code::Unimplemented);
    let short = client.runtime.pod_sandbox_status(request).await.unwrap().into_inner();
    assert!(short.containers_statuses.is_empty() && short.timestamp == 0);
}
