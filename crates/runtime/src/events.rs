//! Events of containers and sandboxes for `GetContainerEvents`.

use cri::v1::{ContainerEventResponse, ContainerEventType};

use crate::containers::published_status;
use crate::sandboxes::{Sandbox, sandbox_status};
use crate::shared::Shared;

/// One event, as it is sent.
pub(crate) type ContainerEvent = ContainerEventResponse;

/// Sends an event to all subscribers, with the state of the pod at this moment.
pub(crate) fn publish(shared: &Shared, sandbox: &Sandbox, id: &str, kind: ContainerEventType) {
    if shared.events.receiver_count() == 0 {
        return;
    }
    let containers = shared.containers_of(&sandbox.record.id);
    let event = ContainerEventResponse {
        container_id: id.to_owned(),
        container_event_type: kind.into(),
        created_at: shared.now(),
        pod_sandbox_status: Some(sandbox_status(sandbox)),
        containers_statuses: containers.iter().map(|container| published_status(container)).collect(),
    };
    // Fails if the last subscriber has just left.
    let _ = shared.events.send(event);
}
