//! Container statuses of a pod status.

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus as ApiStatus, ContainerUser, LinuxContainerUser,
};
use model::{ContainerKind, ContainerRef, ContainerState, ContainerStatus, WorkerProgress};

use super::mounts::volume_mounts;
use super::restart_all::is_restarting_all;
use super::{ContainerStatuses, PodStatusInputs, is_syncing, is_terminated, missing_containers, resources};
use crate::pipeline::pod_actions::{never_ran, restart_count, restarts_after};
use crate::pipeline::termination_message::truncate_to_share;

/// Inputs for the status of one container.
#[derive(Clone, Copy)]
pub(super) struct ContainerStatusInputs<'a> {
    pub(super) inputs: &'a PodStatusInputs<'a>,
    pub(super) container: &'a Container,
    pub(super) kind: ContainerKind,
    /// The previous status of the container.
    pub(super) old: Option<&'a ApiStatus>,
}

/// Init containers are in spec order; regular and ephemeral containers are sorted by name.
pub(super) fn container_statuses(inputs: &PodStatusInputs<'_>) -> ContainerStatuses {
    let old = inputs.previous.unwrap_or(&inputs.pod.status);
    let list = |containers: &mut dyn Iterator<Item = ContainerRef<'_>>, old: Option<&Vec<ApiStatus>>| {
        let container_inputs = |entry: ContainerRef<'_>| {
            let ContainerRef { kind, container } = entry;
            let old = old.into_iter().flatten().find(|old| old.name == container.name);
            status_of(ContainerStatusInputs { inputs, container, kind, old })
        };
        let mut statuses: Vec<ApiStatus> = containers.map(container_inputs).collect();
        // Statuses live as long as their pod and most pods have one container, so drop the spare capacity.
        statuses.shrink_to_fit();
        statuses
    };
    let of_kind = |kind| inputs.pod.containers().filter(move |entry| entry.kind == kind);
    let mut statuses = ContainerStatuses {
        init: list(&mut of_kind(ContainerKind::Init), old.init_container_statuses.as_ref()),
        regular: list(&mut of_kind(ContainerKind::Regular), old.container_statuses.as_ref()),
        ephemeral: list(&mut inputs.pod.ephemeral_containers(), old.ephemeral_container_statuses.as_ref()),
    };
    statuses.regular.sort_by(|a, b| a.name.cmp(&b.name));
    statuses.ephemeral.sort_by(|a, b| a.name.cmp(&b.name));
    if is_terminated(inputs) {
        missing_containers::fail_unobserved(inputs.pod, &mut statuses);
    }
    let count = statuses.init.len() + statuses.regular.len() + statuses.ephemeral.len();
    let all = statuses.init.iter_mut().chain(&mut statuses.regular).chain(&mut statuses.ephemeral);
    all.for_each(|status| truncate_messages(status, count));
    statuses
}

fn status_of(container_inputs: ContainerStatusInputs<'_>) -> ApiStatus {
    let ContainerStatusInputs { inputs, container, .. } = container_inputs;
    // Skip containers whose start was interrupted or never happened; the worker creates them again.
    let mut history = inputs
        .observed
        .iter()
        .flat_map(|observed| observed.containers_named(&container.name))
        .filter(|status| !never_ran(status));
    let newest = history.next();
    let mut api = match newest {
        None => missing_containers::status_of_absent(container_inputs),
        Some(status) => {
            let mut api = convert(container_inputs, status);
            if let Some(before) = history.find(|status| status.state == ContainerState::Exited) {
                api.last_state = Some(terminated(inputs, before));
            }
            api
        }
    };
    if can_restart(container_inputs, newest, &api)
        && let Some(waits) = waiting_state(container_inputs)
    {
        let ended = api.state.take().filter(|state| state.terminated.is_some());
        if ended.is_some() {
            api.last_state = ended;
        }
        api.state = Some(waits);
    }
    api.last_state.get_or_insert_default();
    api
}

/// The waiting state of a container that the worker cannot start. Until the first sync, the waiting state that a
/// previous agent process reported is kept.
fn waiting_state(container_inputs: ContainerStatusInputs<'_>) -> Option<ApiState> {
    let ContainerStatusInputs { inputs, container, old, .. } = container_inputs;
    if let Some(problem) = inputs.worker.and_then(|worker| worker.problems.get(&container.name)) {
        return Some(waiting(&problem.reason, Some(problem.message.clone())));
    }
    if inputs.worker.is_some_and(|worker| worker.progress == WorkerProgress::SyncedOnce) {
        return None;
    }
    let previous = old?.state.as_ref()?;
    let reason = previous.waiting.as_ref()?.reason.as_deref()?;
    (reason != default_reason(inputs)).then(|| previous.clone())
}

/// Whether the container can be started again, so that the worker's problem with it becomes its waiting state.
fn can_restart(
    container_inputs: ContainerStatusInputs<'_>,
    newest: Option<&ContainerStatus>,
    api: &ApiStatus,
) -> bool {
    let ContainerStatusInputs { inputs, container, kind, .. } = container_inputs;
    if inputs.pod.is_deleted() || !is_syncing(inputs) {
        return false;
    }
    let is_init = kind == ContainerKind::Init;
    match newest.map(|status| (status.state, status.exit_code)) {
        None => !(is_init && api.state.as_ref().is_some_and(|state| state.terminated.is_some())),
        Some((ContainerState::Running, _)) => false,
        Some((ContainerState::Exited, 0)) if is_init => false,
        Some((ContainerState::Exited, code)) => restarts_after(inputs.pod, container, code),
        Some((ContainerState::Created | ContainerState::Unknown, _)) => true,
    }
}

/// Converts the status that the runtime reported.
fn convert(container_inputs: ContainerStatusInputs<'_>, status: &ContainerStatus) -> ApiStatus {
    let ContainerStatusInputs { inputs, container, old, .. } = container_inputs;
    let id = full_id(inputs, status);
    let recorded = inputs.actuated.and_then(|actuated| actuated.containers.get(&container.name));
    let recorded = recorded.map(|resources| &**resources);
    let mut api = ApiStatus {
        name: container.name.clone(),
        restart_count: i32::try_from(restart_count(status)).unwrap_or(i32::MAX),
        image: if status.image.is_empty() {
            container.image.clone().unwrap_or_default()
        } else {
            status.image.clone()
        },
        image_id: status.image_ref.clone(),
        resources: Some(resources::container_resources(container, status, recorded, old)),
        allocated_resources: container.resources.as_ref().and_then(|resources| resources.requests.clone()),
        user: status.user.as_ref().map(|user| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: user.uid,
                gid: user.gid,
                supplemental_groups: Some(user.supplemental_groups.clone()).filter(|list| !list.is_empty()),
            }),
        }),
        stop_signal: status.stop_signal.clone().filter(|_| inputs.node.shows_stop_signals),
        volume_mounts: volume_mounts(inputs, container, Some(status)),
        ..ApiStatus::default()
    };
    if let Some(old) = old {
        api.restart_count = api.restart_count.max(old.restart_count);
        let ended = old.state.as_ref().filter(|state| state.terminated.is_some());
        let is_new_container = old.container_id.as_deref() != Some(&id);
        let before = if is_new_container { ended } else { None };
        api.last_state = before.or(old.last_state.as_ref()).cloned();
    }
    api.state = Some(state(container_inputs, status, &mut api));
    api.container_id = Some(id);
    api
}

fn state(
    container_inputs: ContainerStatusInputs<'_>,
    status: &ContainerStatus,
    api: &mut ApiStatus,
) -> ApiState {
    let ContainerStatusInputs { inputs, old, .. } = container_inputs;
    let old_state = old.and_then(|old| old.state.as_ref());
    match status.state {
        ContainerState::Running => ApiState {
            running: Some(ContainerStateRunning { started_at: Some(status.started_at.to_api_time()) }),
            ..ApiState::default()
        },
        ContainerState::Exited => terminated(inputs, status),
        ContainerState::Created => waiting(default_reason(inputs), None),
        ContainerState::Unknown => match old_state {
            Some(previous) if missing_containers::is_unobserved_exit(previous) => previous.clone(),
            Some(previous) if previous.running.is_some() => {
                api.restart_count = old.map_or(0, |old| old.restart_count.saturating_add(1));
                let reason = if is_restarting_all(inputs) {
                    missing_containers::RESTARTING_ALL_REASON
                } else {
                    missing_containers::UNKNOWN_REASON
                };
                missing_containers::unobserved_exit(reason)
            }
            Some(_) | None => waiting(default_reason(inputs), None),
        },
    }
}

/// The waiting reason of a container without a problem.
pub(super) fn default_reason(inputs: &PodStatusInputs<'_>) -> &'static str {
    if inputs.pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty()) {
        "PodInitializing"
    } else {
        "ContainerCreating"
    }
}

pub(super) fn waiting(reason: &str, message: Option<String>) -> ApiState {
    let message = message.filter(|message| !message.is_empty());
    ApiState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ApiState::default()
    }
}

fn full_id(inputs: &PodStatusInputs<'_>, status: &ContainerStatus) -> String {
    format!("{}://{}", inputs.node.runtime_name, status.id)
}

fn terminated(inputs: &PodStatusInputs<'_>, status: &ContainerStatus) -> ApiState {
    let reason = if !status.reason.is_empty() {
        status.reason.clone()
    } else if status.exit_code == 0 {
        "Completed".to_owned()
    } else {
        "Error".to_owned()
    };
    ApiState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(full_id(inputs, status)),
            exit_code: status.exit_code,
            reason: Some(reason),
            message: (!status.message.is_empty()).then(|| status.message.clone()),
            started_at: Some(status.started_at.to_api_time()),
            finished_at: Some(status.finished_at.to_api_time()),
            signal: None,
        }),
        ..ApiState::default()
    }
}

fn truncate_messages(status: &mut ApiStatus, containers: usize) {
    let states = [&mut status.state, &mut status.last_state].into_iter().flatten();
    for ended in states.filter_map(|state| state.terminated.as_mut()) {
        if let Some(message) = &mut ended.message {
            *message = truncate_to_share(message, containers);
        }
    }
}
