//! Conditions of a pod status.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use model::{NamespaceMode, SandboxState, Standing};

use super::restart_all::{has_no_containers, has_restart_all_rule, is_restarting_all};
use super::{ContainerStatuses, PodStatusInputs, is_terminated};
use crate::pipeline::pod_actions::is_sidecar;

/// Conditions that only the agent writes.
pub(crate) const OWNED: [&str; 9] = [
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
    FROM_CACHE,
];
/// Podward only, present only while true: the pod runs from the cache.
const FROM_CACHE: &str = "podward.dev/FromCache";
/// A condition that other writers set too.
pub(crate) const DISRUPTION: &str = "DisruptionTarget";

/// All conditions in upstream order; those of other writers come first.
pub(super) fn conditions(
    inputs: &PodStatusInputs<'_>,
    status: &PodStatus,
    statuses: &ContainerStatuses,
) -> Vec<PodCondition> {
    let at_api_server = inputs.pod.status.conditions.as_deref().unwrap_or_default();
    let is_foreign = |kind: &str| !OWNED.contains(&kind) && kind != DISRUPTION;
    let mut conditions: Vec<PodCondition> =
        at_api_server.iter().filter(|condition| is_foreign(&condition.type_)).cloned().collect();
    if !is_terminated(inputs) {
        conditions.extend(inputs.resize.iter().cloned());
    }
    let disruption = at_api_server.iter().find(|condition| condition.type_ == DISRUPTION);
    conditions.extend(disruption.or_else(|| previous_condition(inputs, DISRUPTION)).cloned());
    let containers_ready = containers_ready(inputs, status, statuses);
    let ready = apply_readiness_gates(inputs, &conditions, containers_ready.clone());
    if inputs.node.gates.ready_to_start_condition {
        let is_up = ConditionState::without_reason(sandbox_is_up(inputs));
        conditions.push(condition(inputs, "PodReadyToStartContainers", is_up));
    }
    let states = [
        ("Initialized", initialized(inputs, status, statuses)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", ConditionState::without_reason(true)),
    ];
    conditions.extend(states.into_iter().map(|(kind, state)| condition(inputs, kind, state)));
    if has_restart_all_rule(&inputs.pod.spec) {
        let mut restarting =
            condition(inputs, "AllContainersRestarting", all_containers_restarting(inputs, status));
        restarting.observed_generation = None;
        conditions.push(restarting);
    }
    if inputs.pod.standing == Standing::Remembered {
        let message = "the API server has not confirmed this pod since the agent started".to_owned();
        let state = ConditionState { is_true: true, reason: Some("NotConfirmed"), message: Some(message) };
        conditions.push(condition(inputs, FROM_CACHE, state));
    }
    conditions
}

#[derive(Clone)]
struct ConditionState {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl ConditionState {
    fn without_reason(is_true: bool) -> Self {
        Self { is_true, reason: None, message: None }
    }

    fn with_reason(is_true: bool, reason: &'static str) -> Self {
        Self { is_true, reason: Some(reason), message: None }
    }

    fn not_true(reason: &'static str, message: String) -> Self {
        Self { is_true: false, reason: Some(reason), message: Some(message) }
    }
}

/// The condition in the previous status.
fn previous_condition<'a>(inputs: &PodStatusInputs<'a>, kind: &str) -> Option<&'a PodCondition> {
    let old = inputs.previous?.conditions.as_ref()?;
    old.iter().find(|condition| condition.type_ == kind)
}

fn condition(inputs: &PodStatusInputs<'_>, kind: &str, state: ConditionState) -> PodCondition {
    let text = if state.is_true { "True" } else { "False" };
    let last_transition_time = previous_condition(inputs, kind)
        .filter(|condition| condition.status == text)
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or_else(|| inputs.now.to_api_time());
    PodCondition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: state.reason.map(str::to_owned),
        message: state.message,
        last_transition_time: Some(last_transition_time),
        last_probe_time: None,
        observed_generation: inputs.pod.metadata.generation.filter(|generation| *generation != 0),
    }
}

/// Whether the newest sandbox is the only ready one, with the right network mode and an address.
fn sandbox_is_up(inputs: &PodStatusInputs<'_>) -> bool {
    let Some(observed) = inputs.observed else { return false };
    let Some(newest) = observed.sandboxes.first() else { return false };
    let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let host = inputs.pod.is_host_network();
    let network = if host { NamespaceMode::Node } else { NamespaceMode::Pod };
    ready == 1
        && newest.state == SandboxState::Ready
        && newest.network == network
        && (host || !newest.lacks_address())
}

fn find<'a>(statuses: &'a [ContainerStatus], name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == name)
}

/// Formats a list of names as Go prints a slice.
fn name_list(label: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{label}: [{}]", names.join(" ")))
}

fn joined(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn initialized(
    inputs: &PodStatusInputs<'_>,
    status: &PodStatus,
    statuses: &ContainerStatuses,
) -> ConditionState {
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in inputs.pod.spec.init_containers.iter().flatten() {
        match find(&statuses.init, &container.name) {
            None => unknown.push(container.name.as_str()),
            // A sidecar counts as initialized once it has started.
            Some(entry) if is_sidecar(container) && entry.started == Some(true) => {}
            Some(entry) if !is_sidecar(container) && entry.ready => {}
            Some(_) => incomplete.push(container.name.as_str()),
        }
    }
    if status.phase.as_deref() == Some("Succeeded") && unknown.is_empty() {
        return ConditionState::with_reason(true, "PodCompleted");
    }
    let ran = |entry: &ContainerStatus| {
        entry.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if statuses.regular.iter().any(ran) {
        return ConditionState::without_reason(true);
    }
    let message = joined([
        name_list("containers with unknown status", &unknown),
        name_list("containers with incomplete status", &incomplete),
    ]);
    match message {
        // The pod stays initialized while all containers are restarted.
        Some(_) if previous_condition(inputs, "Initialized").is_some_and(|old| old.status == "True") => {
            ConditionState::without_reason(true)
        }
        Some(message) => ConditionState::not_true("ContainersNotInitialized", message),
        None => ConditionState::without_reason(true),
    }
}

fn containers_ready(
    inputs: &PodStatusInputs<'_>,
    status: &PodStatus,
    statuses: &ContainerStatuses,
) -> ConditionState {
    let spec = &inputs.pod.spec;
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let entries = sidecars
        .map(|container| (container, find(&statuses.init, &container.name)))
        .chain(spec.containers.iter().map(|container| (container, find(&statuses.regular, &container.name))));
    let mut unknown = Vec::new();
    let mut unready = Vec::new();
    for (container, entry) in entries {
        match entry {
            None => unknown.push(container.name.as_str()),
            Some(entry) if !entry.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    match status.phase.as_deref() {
        Some("Succeeded") if unknown.is_empty() => return ConditionState::with_reason(false, "PodCompleted"),
        Some("Failed") => return ConditionState::with_reason(false, "PodFailed"),
        _ => {}
    }
    let message = joined([
        name_list("containers with unknown status", &unknown),
        name_list("containers with unready status", &unready),
    ]);
    match message {
        Some(message) => ConditionState::not_true("ContainersNotReady", message),
        None => ConditionState::without_reason(true),
    }
}

/// A pod is ready when its containers are and every readiness gate is `True`.
fn apply_readiness_gates(
    inputs: &PodStatusInputs<'_>,
    conditions: &[PodCondition],
    containers: ConditionState,
) -> ConditionState {
    if !containers.is_true {
        return containers;
    }
    let mut closed = Vec::new();
    for gate in inputs.pod.spec.readiness_gates.iter().flatten() {
        let name = &gate.condition_type;
        match conditions.iter().find(|condition| condition.type_ == *name) {
            None => {
                closed
                    .push(format!("corresponding condition of pod readiness gate {name:?} does not exist."));
            }
            Some(condition) if condition.status != "True" => closed.push(format!(
                "the status of pod readiness gate {name:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if closed.is_empty() {
        containers
    } else {
        ConditionState::not_true("ReadinessGatesNotReady", closed.join(", "))
    }
}

fn all_containers_restarting(inputs: &PodStatusInputs<'_>, status: &PodStatus) -> ConditionState {
    match status.phase.as_deref() {
        Some("Succeeded") => return ConditionState::with_reason(false, "PodCompleted"),
        Some("Failed") => return ConditionState::with_reason(false, "PodFailed"),
        _ => {}
    }
    if !is_restarting_all(inputs) || has_no_containers(&inputs.pod.spec, inputs.observed) {
        return ConditionState::without_reason(false);
    }
    ConditionState {
        is_true: true,
        reason: Some("RestartAllContainersStarted"),
        message: Some("container exited with restart policy rule".to_owned()),
    }
}
