//! Finds containers that terminated between two statuses of a pod.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, PodStatus};
use model::ContainerKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Termination {
    pub kind: ContainerKind,
    pub exit_code: i32,
    pub reason: String,
}

/// Containers whose termination is in `new` but not in `old`.
pub fn terminations(old: &PodStatus, new: &PodStatus) -> Vec<Termination> {
    let known_ids: HashSet<&str> =
        terminated_states(old).filter_map(|(_, end)| end.container_id.as_deref()).collect();
    let is_new = |end: &ContainerStateTerminated| {
        end.container_id.as_deref().is_some_and(|id| !id.is_empty() && !known_ids.contains(id))
    };
    let new = terminated_states(new).filter(|(_, end)| is_new(end));
    new.map(|(kind, end)| Termination {
        kind,
        exit_code: end.exit_code,
        reason: end.reason.clone().unwrap_or_default(),
    })
    .collect()
}

fn terminated_states(status: &PodStatus) -> impl Iterator<Item = (ContainerKind, &ContainerStateTerminated)> {
    let lists = [
        (ContainerKind::Init, &status.init_container_statuses),
        (ContainerKind::Regular, &status.container_statuses),
        (ContainerKind::Ephemeral, &status.ephemeral_container_statuses),
    ];
    lists.into_iter().flat_map(|(kind, list)| {
        list.iter().flatten().flat_map(terminated_states_of).map(move |end| (kind, end))
    })
}

fn terminated_states_of(status: &ContainerStatus) -> impl Iterator<Item = &ContainerStateTerminated> {
    let states = [&status.state, &status.last_state];
    states.into_iter().flatten().filter_map(|state| state.terminated.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(states: &serde_json::Value) -> PodStatus {
        serde_json::from_value(json!({"containerStatuses": [states]})).unwrap()
    }

    fn container(state: &serde_json::Value, last: &serde_json::Value) -> serde_json::Value {
        json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last})
    }

    fn end(id: &str, exit_code: i32) -> serde_json::Value {
        json!({"terminated": {"exitCode": exit_code, "containerID": id, "reason": "Error"}})
    }

    #[test]
    fn termination_counts_once_when_it_moves_to_last_state() {
        let running = status(&container(&json!({"running": {}}), &json!({})));
        let exited = status(&container(&end("one", 3), &json!({})));
        let again = status(&container(&json!({"running": {}}), &end("one", 3)));
        let second = status(&container(&end("two", 0), &end("one", 3)));
        let codes = |old, new| terminations(old, new).iter().map(|end| end.exit_code).collect::<Vec<_>>();
        assert_eq!(codes(&running, &exited), [3]);
        assert_eq!(codes(&running, &again), [3]);
        assert_eq!(codes(&exited, &again), Vec::<i32>::new());
        assert_eq!(codes(&again, &second), [0]);
    }

    #[test]
    fn termination_has_the_kind_of_its_status_list() {
        let init = json!({"initContainerStatuses": [container(&end("one", 0), &json!({}))]});
        let init = serde_json::from_value(init).unwrap();
        let expected = Termination { kind: ContainerKind::Init, exit_code: 0, reason: "Error".to_owned() };
        assert_eq!(terminations(&PodStatus::default(), &init), [expected]);
    }
}
