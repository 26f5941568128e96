//! Statuses of containers that the runtime no longer has.

use k8s_openapi::api::core::v1::{
    ContainerState as ApiState, ContainerStateTerminated, ContainerStatus as ApiStatus,
};
use model::{ContainerKind, Pod};

use super::containers::{ContainerStatusInputs, default_reason, waiting};
use super::mounts::volume_mounts;
use super::restart_all::is_restarting_all;
use super::{ContainerStatuses, PodStatusInputs};
use crate::pipeline::pod_actions::is_sidecar;

/// Termination reason of a container whose exit was not observed.
pub(super) const UNKNOWN_REASON: &str = "ContainerStatusUnknown";
/// Termination reason of a container that was removed by the `RestartAllContainers` rule of another one.
pub(super) const RESTARTING_ALL_REASON: &str = "RestartingAllContainers";

pub(super) fn status_of_absent(container_inputs: ContainerStatusInputs<'_>) -> ApiStatus {
    let ContainerStatusInputs { inputs, container, old, .. } = container_inputs;
    let mut api = ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(default_reason(inputs), None)),
        volume_mounts: volume_mounts(inputs, container, None),
        ..ApiStatus::default()
    };
    if let Some(old) = old {
        apply_previous(container_inputs, &mut api, old);
    }
    let waits = api.state.as_ref().is_some_and(|state| state.waiting.is_some());
    // An init container that was removed by RestartAllContainers runs again, so it has not completed.
    if waits && is_plain_init(container_inputs) && regular_exists(inputs) && !is_restarting_all(inputs) {
        api.state = Some(terminated_state(
            "Completed",
            "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
            0,
        ));
    }
    api
}

fn apply_previous(container_inputs: ContainerStatusInputs<'_>, api: &mut ApiStatus, old: &ApiStatus) {
    let inputs = container_inputs.inputs;
    // Upstream does not read the status of a static pod that an earlier process reported, so it knows the exits of init
    // containers only from the runtime.
    let knows_exit = !is_plain_init(container_inputs) || inputs.own.is_some() || !inputs.pod.is_static();
    let state = old.state.clone().unwrap_or_default();
    if state.terminated.is_some() && knows_exit {
        *api = old.clone();
    } else {
        api.restart_count = old.restart_count;
        api.last_state.clone_from(&old.last_state);
    }
    if state.waiting.is_none() && is_restarting_all(inputs) {
        let message = "The container is removed because RestartAllContainers in place";
        api.state = Some(waiting(RESTARTING_ALL_REASON, Some(message.to_owned())));
        api.last_state = Some(terminated_state(RESTARTING_ALL_REASON, message, 137));
        api.restart_count = old.restart_count.saturating_add(1);
        return;
    }
    let has_end = api.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    if state.running.is_some() && !has_end {
        let message =
            "The container could not be located when the pod was deleted.  The container used to be Running";
        api.last_state = Some(terminated_state(UNKNOWN_REASON, message, 137));
        if !inputs.pod.is_deleted() {
            api.restart_count = api.restart_count.saturating_add(1);
        }
    }
}

fn is_plain_init(container_inputs: ContainerStatusInputs<'_>) -> bool {
    container_inputs.kind == ContainerKind::Init && !is_sidecar(container_inputs.container)
}

/// After the pod was terminated, containers whose exit was not observed count as failed.
pub(super) fn fail_unobserved(pod: &Pod, statuses: &mut ContainerStatuses) {
    if has_initialized(pod, statuses) {
        statuses.regular.iter_mut().for_each(terminate_unobserved);
    }
    let has_started = |status: &ApiStatus| {
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        !waits || status.last_state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    // Init containers that were never reached have not failed; the first one counts as started.
    let count = statuses.init.iter().rposition(has_started).map_or(1, |last| last + 1);
    statuses.init.iter_mut().take(count).for_each(terminate_unobserved);
}

fn terminate_unobserved(status: &mut ApiStatus) {
    // The exit of a running container will still be observed.
    let is_observed = |state: &ApiState| state.terminated.is_some() || state.running.is_some();
    if !status.state.as_ref().is_some_and(is_observed) {
        status.state = Some(unobserved_exit(UNKNOWN_REASON));
    }
}

fn has_initialized(pod: &Pod, statuses: &ContainerStatuses) -> bool {
    let Some(last) = pod.spec.init_containers.as_ref().and_then(|init| init.last()) else { return true };
    let ended = |state: &Option<ApiState>| state.as_ref().and_then(|state| state.terminated.clone());
    let regular_ran = statuses.regular.iter().any(|status| {
        ended(&status.last_state).is_some()
            || status.state.as_ref().is_some_and(|state| state.waiting.is_none())
    });
    let Some(status) = statuses.init.last() else { return regular_ran };
    let done = |state: &Option<ApiState>| ended(state).is_some_and(|end| end.exit_code == 0);
    let last_is_done = if is_sidecar(last) {
        status.started == Some(true)
    } else {
        done(&status.state) || done(&status.last_state)
    };
    regular_ran || last_is_done
}

fn regular_exists(inputs: &PodStatusInputs<'_>) -> bool {
    let Some(observed) = inputs.observed else { return false };
    inputs.pod.spec.containers.iter().any(|container| observed.container(&container.name).is_some())
}

/// Terminated state of a container whose exit was not observed.
pub(super) fn unobserved_exit(reason: &str) -> ApiState {
    terminated_state(reason, "The container could not be located when the pod was terminated", 137)
}

pub(super) fn is_unobserved_exit(state: &ApiState) -> bool {
    let reason = state.terminated.as_ref().and_then(|ended| ended.reason.as_deref());
    matches!(reason, Some(UNKNOWN_REASON | RESTARTING_ALL_REASON))
}

fn terminated_state(reason: &str, message: &str, exit_code: i32) -> ApiState {
    ApiState {
        terminated: Some(ContainerStateTerminated {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            exit_code,
            ..ContainerStateTerminated::default()
        }),
        ..ApiState::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use model::{ContainerState, PodSource, SandboxState};

    use super::super::pod_status;
    use super::super::tests::{exited, inputs, node};
    use super::*;
    use crate::test_objects::{container, observed, pod, sandbox};

    const INFERRED: &str = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";

    fn message_of_init(status: &PodStatus) -> Option<&str> {
        let state = status.init_container_statuses.as_ref()?[0].state.as_ref()?;
        state.terminated.as_ref().map(|ended| ended.message.as_deref().unwrap_or_default())
    }

    #[test]
    fn removed_init_container_is_inferred_unless_its_exit_is_known() {
        let mut pod = pod(serde_json::json!({
            "initContainers": [{"name": "init", "image": "x"}], "containers": [{"name": "a", "image": "x"}]}));
        let ready = || vec![sandbox("s", 0, SandboxState::Ready)];
        let main = || container("a0", "a", 0, ContainerState::Running);
        let complete = observed(ready(), vec![exited("init", 0, 0), main()]);
        let removed = observed(ready(), vec![main()]);
        let node = node();
        let reported = pod_status(&inputs(&pod, &complete, &node));
        let message = |pod: &Pod, previous, own| {
            let status = pod_status(&PodStatusInputs { previous, own, ..inputs(pod, &removed, &node) });
            message_of_init(&status).map(str::to_owned)
        };
        let known = Some(String::new());
        assert_eq!(message(&pod, None, None).as_deref(), Some(INFERRED));
        assert_eq!(message(&pod, Some(&reported), Some(&reported)), known, "removed while the agent runs");
        assert_eq!(message(&pod, Some(&reported), None).as_deref(), Some(INFERRED), "while it was away");
        pod.source = PodSource::Api;
        assert_eq!(message(&pod, Some(&reported), None), known, "the API object keeps the status");
    }

    #[test]
    fn removed_init_container_of_uninitialized_static_pod_is_waiting() {
        let pod = pod(serde_json::json!({
            "initContainers": [{"name": "init", "image": "x"}], "containers": [{"name": "a", "image": "x"}]}));
        let node = node();
        let complete = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![exited("init", 0, 0)]);
        let reported = pod_status(&inputs(&pod, &complete, &node));
        let removed = observed(vec![sandbox("s", 0, SandboxState::Ready)], vec![]);
        let status =
            pod_status(&PodStatusInputs { previous: Some(&reported), ..inputs(&pod, &removed, &node) });
        assert_eq!(message_of_init(&status), None, "it runs again");
    }
}
