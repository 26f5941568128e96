use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus as ApiStatus,
};
use model::{ContainerState, ContainerStatus, WorkerPhase};

use super::Facts;
use crate::pod_actions::{is_half_made, is_sidecar, restart_count, should_restart};

/// Statuses of init containers (in spec order) and of regular ones (sorted by name).
pub(super) fn container_statuses(facts: &Facts<'_>) -> (Vec<ApiStatus>, Vec<ApiStatus>) {
    let spec = &facts.pod.spec;
    let regular_begun = spec.containers.iter().any(|container| newest(facts, &container.name).is_some());
    let waits_for_init = !regular_begun && spec.init_containers.as_ref().is_some_and(|init| !init.is_empty());
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| {
            one(facts, container, if waits_for_init { "PodInitializing" } else { "ContainerCreating" })
        })
        .collect();
    let default_reason = if waits_for_init { "PodInitializing" } else { "ContainerCreating" };
    let mut regular: Vec<_> =
        spec.containers.iter().map(|container| one(facts, container, default_reason)).collect();
    regular.sort_by(|a, b| a.name.cmp(&b.name));
    (init, regular)
}

fn newest<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a ContainerStatus> {
    facts.observed.and_then(|observed| observed.container(name))
}

fn one(facts: &Facts<'_>, container: &Container, default_reason: &str) -> ApiStatus {
    // A start that was cut off is no end of the container: it is made again.
    let mut history = facts
        .observed
        .iter()
        .flat_map(|observed| observed.containers_named(&container.name))
        .filter(|status| status.state != ContainerState::Exited || !is_half_made(status));
    let newest = history.next();
    let before = history.find(|status| status.state == ContainerState::Exited);
    let problem = facts.worker.and_then(|worker| worker.problems.get(&container.name));
    let mut api = ApiStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ..ApiStatus::default()
    };
    let waiting = |reason: &str, message: Option<String>| ApiState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ApiState::default()
    };
    let announced = || match problem {
        Some(problem) => waiting(&problem.reason, Some(problem.message.clone())),
        None => waiting(default_reason, None),
    };

    let Some(status) = newest else {
        api.state = Some(announced());
        api.started = Some(false);
        keep_last_state(facts, &mut api);
        return api;
    };
    api.restart_count = i32::try_from(restart_count(status)).unwrap_or(i32::MAX);
    api.container_id = Some(full_id(facts, status));
    api.image_id.clone_from(&status.image_ref);
    if !status.image.is_empty() {
        api.image.clone_from(&status.image);
    }
    api.last_state = before.map(|status| terminated(facts, status));
    match status.state {
        ContainerState::Running => {
            api.state = Some(ApiState {
                running: Some(ContainerStateRunning { started_at: Some(status.started_at.to_api_time()) }),
                ..ApiState::default()
            });
            api.started = Some(true);
            api.ready = true;
        }
        ContainerState::Exited => {
            let ended = terminated(facts, status);
            if will_restart(facts, container, status) {
                if let Some(problem) = problem {
                    api.state = Some(waiting(&problem.reason, Some(problem.message.clone())));
                    api.last_state = Some(ended);
                } else {
                    api.state = Some(ended);
                }
            } else {
                api.state = Some(ended);
            }
            api.started = Some(false);
            // An init container that did its work counts as ready.
            api.ready = is_init(facts, container) && !is_sidecar(container) && status.exit_code == 0;
        }
        ContainerState::Created | ContainerState::Unknown => {
            api.state = Some(announced());
            api.started = Some(false);
        }
    }
    api
}

fn is_init(facts: &Facts<'_>, container: &Container) -> bool {
    facts.pod.spec.init_containers.iter().flatten().any(|init| init.name == container.name)
}

fn will_restart(facts: &Facts<'_>, container: &Container, status: &ContainerStatus) -> bool {
    let syncing = facts.worker.is_none_or(|worker| worker.phase == WorkerPhase::Syncing);
    let done_init = is_init(facts, container) && !is_sidecar(container) && status.exit_code == 0;
    syncing && !done_init && (is_sidecar(container) || should_restart(facts.pod, status))
}

/// When the runtime has forgotten a container that was reported before, the report is not lost.
fn keep_last_state(facts: &Facts<'_>, api: &mut ApiStatus) {
    let lists = facts.previous.into_iter().flat_map(|previous| {
        [previous.container_statuses.as_ref(), previous.init_container_statuses.as_ref()]
            .into_iter()
            .flatten()
    });
    let Some(old) = lists.flatten().find(|old| old.name == api.name) else {
        return;
    };
    api.restart_count = old.restart_count;
    let ended = old.state.as_ref().filter(|state| state.terminated.is_some());
    api.last_state = ended.or(old.last_state.as_ref()).cloned();
    let over = facts.worker.is_some_and(|worker| worker.phase > WorkerPhase::Syncing);
    if over && let Some(ended) = ended {
        api.state = Some(ended.clone());
        api.last_state.clone_from(&old.last_state);
        api.container_id.clone_from(&old.container_id);
        api.image_id.clone_from(&old.image_id);
    }
}

fn full_id(facts: &Facts<'_>, status: &ContainerStatus) -> String {
    format!("{}://{}", facts.runtime_name, status.id)
}

fn terminated(facts: &Facts<'_>, status: &ContainerStatus) -> ApiState {
    let reason = if !status.reason.is_empty() {
        status.reason.clone()
    } else if status.exit_code == 0 {
        "Completed".to_owned()
    } else {
        "Error".to_owned()
    };
    ApiState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(full_id(facts, status)),
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
