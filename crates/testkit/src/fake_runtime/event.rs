use cri::v1::{ContainerEventResponse, ContainerEventType, ContainerStatus};
use tokio::sync::mpsc;
use tonic::Status;

use super::runtime_state::RuntimeState;

/// Whether the runtime supports event streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventStream {
    /// Every subscriber receives every event from then on.
    #[default]
    Served,
    /// The call is unimplemented, as in old runtimes.
    Unimplemented,
}

pub(crate) type EventReceiver = mpsc::UnboundedReceiver<Result<ContainerEventResponse, Status>>;

/// Event subscribers.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    pub(crate) stream: EventStream,
    senders: Vec<mpsc::UnboundedSender<Result<ContainerEventResponse, Status>>>,
}

impl Subscribers {
    pub(crate) fn subscribe(&mut self) -> EventReceiver {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.senders.push(sender);
        receiver
    }

    pub(crate) fn count(&mut self) -> usize {
        self.senders.retain(|sender| !sender.is_closed());
        self.senders.len()
    }

    /// Ends every stream, with this status or normally.
    pub(crate) fn cut(&mut self, status: Option<&Status>) {
        for sender in self.senders.drain(..) {
            if let Some(status) = status {
                // A closed receiver does not need it.
                let _ = sender.send(Err(status.clone()));
            }
        }
    }
}

impl RuntimeState {
    /// Sends an event about a container, or about a sandbox under its own ID, to every subscriber.
    pub(crate) fn emit(&mut self, kind: ContainerEventType, id: &str, sandbox_id: &str, now: i64) {
        if self.subscribers.count() == 0 {
            return;
        }
        let event = ContainerEventResponse {
            container_id: id.to_owned(),
            container_event_type: kind.into(),
            created_at: now,
            pod_sandbox_status: self.sandboxes.get(sandbox_id).map(super::record::Sandbox::status),
            containers_statuses: self.statuses_in(sandbox_id),
        };
        self.subscribers.senders.retain(|sender| sender.send(Ok(event.clone())).is_ok());
    }

    pub(crate) fn statuses_in(&self, sandbox_id: &str) -> Vec<ContainerStatus> {
        let ids = self.sandboxes.get(sandbox_id).map(|sandbox| &sandbox.containers);
        let found = ids.into_iter().flatten().filter_map(|id| self.containers.get(id));
        found.map(super::record::Container::status).collect()
    }
}
