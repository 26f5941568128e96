//! Containers that the runtime does not know any more.

use k8s_openapi::api::core::v1::{
    ContainerState as ApiState, ContainerStateTerminated, ContainerStatus as ApiStatus,
};
use model::{ContainerKind, Pod};

use super::containers::{Subject, default_reason, waiting};
use super::mounts::volume_mounts;
use super::restarts::all_restart;
use super::{Facts, Statuses};
use crate::pod_actions::is_sidecar;

/// Reason of an end that nobody saw.
pub(super) const UNKNOWN: &str = "ContainerStatusUnknown";
/// Reason of an end that a rule of another container brought.
pub(super) const RESTARTING_ALL: &str = "RestartingAllContainers";

/// What is said of a container of which the runtime holds nothing.
pub(super) fn status_of_absent(subject: Subject<'_>) -> ApiStatus {
    let Subject { facts, container, kind, old } = subject;
    let mut api = ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(default_reason(facts), None)),
        volume_mounts: volume_mounts(facts, container, None),
        ..ApiStatus::default()
    };
    if let Some(old) = old {
        remember(facts, &mut api, old);
    }
    let waits = api.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let is_plain_init = kind == ContainerKind::Init && !is_sidecar(container);
    // One that was removed for a restart of all runs again: it has not completed, though the others are still there.
    if waits && is_plain_init && regular_exists(facts) && !all_restart(facts) {
        api.state = Some(ended(
            "Completed",
            "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
            0,
        ));
    }
    api
}

fn remember(facts: &Facts<'_>, api: &mut ApiStatus, old: &ApiStatus) {
    let state = old.state.clone().unwrap_or_default();
    if state.terminated.is_some() {
        *api = old.clone();
    } else {
        api.restart_count = old.restart_count;
        api.last_state.clone_from(&old.last_state);
    }
    if state.waiting.is_none() && all_restart(facts) {
        let message = "The container is removed because RestartAllContainers in place";
        api.state = Some(waiting(RESTARTING_ALL, Some(message.to_owned())));
        api.last_state = Some(ended(RESTARTING_ALL, message, 137));
        api.restart_count = old.restart_count.saturating_add(1);
        return;
    }
    let has_end = api.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    if state.running.is_some() && !has_end {
        let message =
            "The container could not be located when the pod was deleted.  The container used to be Running";
        api.last_state = Some(ended(UNKNOWN, message, 137));
        if !facts.pod.is_deleted() {
            api.restart_count = api.restart_count.saturating_add(1);
        }
    }
}

/// Once a pod was stopped for good, a container of which no end is known has failed.
pub(super) fn settle(pod: &Pod, statuses: &mut Statuses) {
    if has_initialized(pod, statuses) {
        statuses.regular.iter_mut().for_each(end_unseen);
    }
    let begun = |status: &ApiStatus| {
        let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
        !waits || status.last_state.as_ref().is_some_and(|state| state.terminated.is_some())
    };
    // Init containers that nobody came to have not failed; the first one counts as begun.
    let count = statuses.init.iter().rposition(begun).map_or(1, |last| last + 1);
    statuses.init.iter_mut().take(count).for_each(end_unseen);
}

fn end_unseen(status: &mut ApiStatus) {
    // One that still seems to run will be seen to end.
    let known = |state: &ApiState| state.terminated.is_some() || state.running.is_some();
    if !status.state.as_ref().is_some_and(known) {
        status.state = Some(unlocated(UNKNOWN));
    }
}

fn has_initialized(pod: &Pod, statuses: &Statuses) -> bool {
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

fn regular_exists(facts: &Facts<'_>) -> bool {
    let Some(observed) = facts.observed else { return false };
    facts.pod.spec.containers.iter().any(|container| observed.container(&container.name).is_some())
}

/// An end that nobody saw.
pub(super) fn unlocated(reason: &str) -> ApiState {
    ended(reason, "The container could not be located when the pod was terminated", 137)
}

/// Whether a state is an end that nobody saw.
pub(super) fn is_unknown_end(state: &ApiState) -> bool {
    let reason = state.terminated.as_ref().and_then(|ended| ended.reason.as_deref());
    matches!(reason, Some(UNKNOWN | RESTARTING_ALL))
}

fn ended(reason: &str, message: &str, exit_code: i32) -> ApiState {
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
