use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus as ApiStatus, ContainerUser, LinuxContainerUser,
};
use model::{ContainerKind, ContainerRef, ContainerState, ContainerStatus};

use super::mounts::volume_mounts;
use super::restarts::all_restart;
use super::{Facts, Statuses, is_syncing, is_terminated, lost, resources};
use crate::pod_actions::{is_half_made, restart_count, restarts_after};
use crate::termination_message::cut_to_share;

/// One container that is reported on.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) container: &'a Container,
    pub(super) kind: ContainerKind,
    /// What was reported of it last.
    pub(super) old: Option<&'a ApiStatus>,
}

/// Statuses of init containers in spec order, of regular and ephemeral ones sorted by name.
pub(super) fn container_statuses(facts: &Facts<'_>) -> Statuses {
    let old = facts.previous.unwrap_or(&facts.pod.status);
    let list = |containers: &mut dyn Iterator<Item = ContainerRef<'_>>, old: Option<&Vec<ApiStatus>>| {
        let subject = |entry: ContainerRef<'_>| {
            let ContainerRef { kind, container } = entry;
            let old = old.into_iter().flatten().find(|old| old.name == container.name);
            status_of(Subject { facts, container, kind, old })
        };
        let mut statuses: Vec<ApiStatus> = containers.map(subject).collect();
        // A status stays as long as its pod, and most pods have one container: no room for more.
        statuses.shrink_to_fit();
        statuses
    };
    let of_kind = |kind| facts.pod.containers().filter(move |entry| entry.kind == kind);
    let mut statuses = Statuses {
        init: list(&mut of_kind(ContainerKind::Init), old.init_container_statuses.as_ref()),
        regular: list(&mut of_kind(ContainerKind::Regular), old.container_statuses.as_ref()),
        ephemeral: list(&mut facts.pod.ephemeral_containers(), old.ephemeral_container_statuses.as_ref()),
    };
    statuses.regular.sort_by(|a, b| a.name.cmp(&b.name));
    statuses.ephemeral.sort_by(|a, b| a.name.cmp(&b.name));
    if is_terminated(facts) {
        lost::settle(facts.pod, &mut statuses);
    }
    let count = statuses.init.len() + statuses.regular.len() + statuses.ephemeral.len();
    let all = statuses.init.iter_mut().chain(&mut statuses.regular).chain(&mut statuses.ephemeral);
    all.for_each(|status| cut_messages(status, count));
    statuses
}

fn status_of(subject: Subject<'_>) -> ApiStatus {
    let Subject { facts, container, .. } = subject;
    // A start that has not happened, or was cut off, is neither the container nor its end: it is made again.
    let mut history = facts
        .observed
        .iter()
        .flat_map(|observed| observed.containers_named(&container.name))
        .filter(|status| !is_half_made(status));
    let newest = history.next();
    let mut api = match newest {
        None => lost::status_of_absent(subject),
        Some(status) => {
            let mut api = converted(subject, status);
            if let Some(before) = history.find(|status| status.state == ContainerState::Exited) {
                api.last_state = Some(terminated(facts, before));
            }
            api
        }
    };
    if may_start_again(subject, newest, &api)
        && let Some(waits) = why_it_waits(subject)
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

/// What keeps a container from running: the worker's problem with it. What an agent before us said stands until the
/// worker has looked itself.
fn why_it_waits(subject: Subject<'_>) -> Option<ApiState> {
    let Subject { facts, container, old, .. } = subject;
    if let Some(problem) = facts.worker.and_then(|worker| worker.problems.get(&container.name)) {
        return Some(waiting(&problem.reason, Some(problem.message.clone())));
    }
    if facts.worker.is_some_and(|worker| worker.passed) {
        return None;
    }
    let told = old?.state.as_ref()?;
    let reason = told.waiting.as_ref()?.reason.as_deref()?;
    (reason != default_reason(facts)).then(|| told.clone())
}

/// Whether the worker's problem with a container is its state.
fn may_start_again(subject: Subject<'_>, newest: Option<&ContainerStatus>, api: &ApiStatus) -> bool {
    let Subject { facts, container, kind, .. } = subject;
    if facts.pod.is_deleted() || !is_syncing(facts) {
        return false;
    }
    let is_init = kind == ContainerKind::Init;
    match newest.map(|status| (status.state, status.exit_code)) {
        None => !(is_init && api.state.as_ref().is_some_and(|state| state.terminated.is_some())),
        Some((ContainerState::Running, _)) => false,
        Some((ContainerState::Exited, 0)) if is_init => false,
        Some((ContainerState::Exited, code)) => restarts_after(facts.pod, container, code),
        Some((ContainerState::Created | ContainerState::Unknown, _)) => true,
    }
}

/// What the runtime says of a container.
fn converted(subject: Subject<'_>, status: &ContainerStatus) -> ApiStatus {
    let Subject { facts, container, old, .. } = subject;
    let id = full_id(facts, status);
    let mut api = ApiStatus {
        name: container.name.clone(),
        restart_count: i32::try_from(restart_count(status)).unwrap_or(i32::MAX),
        image: if status.image.is_empty() {
            container.image.clone().unwrap_or_default()
        } else {
            status.image.clone()
        },
        image_id: status.image_ref.clone(),
        resources: Some(resources::container_resources(container, status, old)),
        allocated_resources: container.resources.as_ref().and_then(|resources| resources.requests.clone()),
        user: status.user.as_ref().map(|user| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: user.uid,
                gid: user.gid,
                supplemental_groups: Some(user.supplemental_groups.clone()).filter(|list| !list.is_empty()),
            }),
        }),
        stop_signal: status.stop_signal.clone().filter(|_| facts.node.shows_stop_signals),
        volume_mounts: volume_mounts(facts, container, Some(status)),
        ..ApiStatus::default()
    };
    if let Some(old) = old {
        api.restart_count = api.restart_count.max(old.restart_count);
        let ended = old.state.as_ref().filter(|state| state.terminated.is_some());
        let is_another = old.container_id.as_deref() != Some(&id);
        let before = if is_another { ended } else { None };
        api.last_state = before.or(old.last_state.as_ref()).cloned();
    }
    api.state = Some(state(subject, status, &mut api));
    api.container_id = Some(id);
    api
}

fn state(subject: Subject<'_>, status: &ContainerStatus, api: &mut ApiStatus) -> ApiState {
    let Subject { facts, old, .. } = subject;
    let old_state = old.and_then(|old| old.state.as_ref());
    match status.state {
        ContainerState::Running => ApiState {
            running: Some(ContainerStateRunning { started_at: Some(status.started_at.to_api_time()) }),
            ..ApiState::default()
        },
        ContainerState::Exited => terminated(facts, status),
        ContainerState::Created => waiting(default_reason(facts), None),
        ContainerState::Unknown => match old_state {
            Some(known) if lost::is_unknown_end(known) => known.clone(),
            Some(known) if known.running.is_some() => {
                api.restart_count = old.map_or(0, |old| old.restart_count.saturating_add(1));
                let reason = if all_restart(facts) { lost::RESTARTING_ALL } else { lost::UNKNOWN };
                lost::unlocated(reason)
            }
            Some(_) | None => waiting(default_reason(facts), None),
        },
    }
}

/// Why a container waits that nobody has had trouble with.
pub(super) fn default_reason(facts: &Facts<'_>) -> &'static str {
    if facts.pod.spec.init_containers.as_ref().is_some_and(|init| !init.is_empty()) {
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

fn full_id(facts: &Facts<'_>, status: &ContainerStatus) -> String {
    format!("{}://{}", facts.node.runtime_name, status.id)
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

fn cut_messages(status: &mut ApiStatus, containers: usize) {
    let states = [&mut status.state, &mut status.last_state].into_iter().flatten();
    for ended in states.filter_map(|state| state.terminated.as_mut()) {
        if let Some(message) = &mut ended.message {
            *message = cut_to_share(message, containers);
        }
    }
}
