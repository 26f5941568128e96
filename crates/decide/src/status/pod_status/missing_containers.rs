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
    let ContainerStatusInputs { inputs, container, kind, old } = container_inputs;
    let mut api = ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(default_reason(inputs), None)),
        volume_mounts: volume_mounts(inputs, container, None),
        ..ApiStatus::default()
    };
    if let Some(old) = old {
        apply_previous(inputs, &mut api, old);
    }
    let waits = api.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let is_plain_init = kind == ContainerKind::Init && !is_sidecar(container);
    // An init container that was removed by RestartAllContainers runs again, so it has not completed.
    if waits && is_plain_init && regular_exists(inputs) && !is_restarting_all(inputs) {
        api.state = Some(terminated_state(
            "Completed",
            "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
            0,
        ));
    }
    api
}

fn apply_previous(inputs: &PodStatusInputs<'_>, api: &mut ApiStatus, old: &ApiStatus) {
    let state = old.state.clone().unwrap_or_default();
    if state.terminated.is_some() {
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
