use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use model::{NamespaceMode, SandboxState, Standing};

use super::restarts::{all_could_restart, all_restart, is_cleaned_up};
use super::{Facts, Statuses, is_terminated};
use crate::pod_actions::is_sidecar;

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
/// Ours alone, and only while it is true: the pod is run from memory.
const FROM_CACHE: &str = "podward.dev/FromCache";
/// The condition that the agent writes beside others.
pub(crate) const DISRUPTION: &str = "DisruptionTarget";

/// The conditions in the order upstream shows them; those of others come first.
pub(super) fn conditions(facts: &Facts<'_>, status: &PodStatus, statuses: &Statuses) -> Vec<PodCondition> {
    let told = facts.pod.status.conditions.as_deref().unwrap_or_default();
    let is_foreign = |kind: &str| !OWNED.contains(&kind) && kind != DISRUPTION;
    let mut conditions: Vec<PodCondition> =
        told.iter().filter(|condition| is_foreign(&condition.type_)).cloned().collect();
    if !is_terminated(facts) {
        conditions.extend(facts.resize.iter().cloned());
    }
    let disruption = told.iter().find(|condition| condition.type_ == DISRUPTION);
    conditions.extend(disruption.or_else(|| before(facts, DISRUPTION)).cloned());
    let containers_ready = containers_ready(facts, status, statuses);
    let ready = gated(facts, &conditions, containers_ready.clone());
    if facts.node.gates.ready_to_start_condition {
        let is_up = Verdict::plain(sandbox_is_up(facts));
        conditions.push(condition(facts, "PodReadyToStartContainers", is_up));
    }
    let verdicts = [
        ("Initialized", initialized(facts, status, statuses)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict::plain(true)),
    ];
    conditions.extend(verdicts.into_iter().map(|(kind, verdict)| condition(facts, kind, verdict)));
    if all_could_restart(&facts.pod.spec) {
        let mut restarting = condition(facts, "AllContainersRestarting", restarting(facts, status));
        restarting.observed_generation = None;
        conditions.push(restarting);
    }
    if facts.pod.standing == Standing::Remembered {
        let message = "the API server has not confirmed this pod since the agent started".to_owned();
        let verdict = Verdict { holds: true, reason: Some("NotConfirmed"), message: Some(message) };
        conditions.push(condition(facts, FROM_CACHE, verdict));
    }
    conditions
}

#[derive(Clone)]
struct Verdict {
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Verdict {
    fn plain(holds: bool) -> Self {
        Self { holds, reason: None, message: None }
    }

    fn because(holds: bool, reason: &'static str) -> Self {
        Self { holds, reason: Some(reason), message: None }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Self { holds: false, reason: Some(reason), message: Some(message) }
    }
}

/// What was said last of a condition.
fn before<'a>(facts: &Facts<'a>, kind: &str) -> Option<&'a PodCondition> {
    let old = facts.previous?.conditions.as_ref()?;
    old.iter().find(|condition| condition.type_ == kind)
}

fn condition(facts: &Facts<'_>, kind: &str, verdict: Verdict) -> PodCondition {
    let text = if verdict.holds { "True" } else { "False" };
    let last_transition_time = before(facts, kind)
        .filter(|condition| condition.status == text)
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or_else(|| facts.now.to_api_time());
    PodCondition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: verdict.message,
        last_transition_time: Some(last_transition_time),
        last_probe_time: None,
        observed_generation: facts.pod.metadata.generation.filter(|generation| *generation != 0),
    }
}

/// Whether the pod's sandbox can be used as it is.
fn sandbox_is_up(facts: &Facts<'_>) -> bool {
    let Some(observed) = facts.observed else { return false };
    let Some(newest) = observed.sandboxes.first() else { return false };
    let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready).count();
    let host = facts.pod.is_host_network();
    let network = if host { NamespaceMode::Node } else { NamespaceMode::Pod };
    ready == 1
        && newest.state == SandboxState::Ready
        && newest.network == network
        && (host || !newest.lacks_address())
}

fn find<'a>(statuses: &'a [ContainerStatus], name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == name)
}

/// Lists of names as Go prints them.
fn names(words: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{words}: [{}]", names.join(" ")))
}

fn joined(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn initialized(facts: &Facts<'_>, status: &PodStatus, statuses: &Statuses) -> Verdict {
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in facts.pod.spec.init_containers.iter().flatten() {
        match find(&statuses.init, &container.name) {
            None => unknown.push(container.name.as_str()),
            // A sidecar has done its part for initialisation once it has started.
            Some(entry) if is_sidecar(container) && entry.started == Some(true) => {}
            Some(entry) if !is_sidecar(container) && entry.ready => {}
            Some(_) => incomplete.push(container.name.as_str()),
        }
    }
    if status.phase.as_deref() == Some("Succeeded") && unknown.is_empty() {
        return Verdict::because(true, "PodCompleted");
    }
    let ran = |entry: &ContainerStatus| {
        entry.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if statuses.regular.iter().any(ran) {
        return Verdict::plain(true);
    }
    let message = joined([
        names("containers with unknown status", &unknown),
        names("containers with incomplete status", &incomplete),
    ]);
    match message {
        // What was initialised once stays so while all containers are restarted.
        Some(_) if before(facts, "Initialized").is_some_and(|old| old.status == "True") => {
            Verdict::plain(true)
        }
        Some(message) => Verdict::no("ContainersNotInitialized", message),
        None => Verdict::plain(true),
    }
}

fn containers_ready(facts: &Facts<'_>, status: &PodStatus, statuses: &Statuses) -> Verdict {
    let spec = &facts.pod.spec;
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
        Some("Succeeded") if unknown.is_empty() => return Verdict::because(false, "PodCompleted"),
        Some("Failed") => return Verdict::because(false, "PodFailed"),
        _ => {}
    }
    let message = joined([
        names("containers with unknown status", &unknown),
        names("containers with unready status", &unready),
    ]);
    match message {
        Some(message) => Verdict::no("ContainersNotReady", message),
        None => Verdict::plain(true),
    }
}

/// A pod is ready when its containers are, and every gate says so.
fn gated(facts: &Facts<'_>, conditions: &[PodCondition], containers: Verdict) -> Verdict {
    if !containers.holds {
        return containers;
    }
    let mut closed = Vec::new();
    for gate in facts.pod.spec.readiness_gates.iter().flatten() {
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
    if closed.is_empty() { containers } else { Verdict::no("ReadinessGatesNotReady", closed.join(", ")) }
}

fn restarting(facts: &Facts<'_>, status: &PodStatus) -> Verdict {
    match status.phase.as_deref() {
        Some("Succeeded") => return Verdict::because(false, "PodCompleted"),
        Some("Failed") => return Verdict::because(false, "PodFailed"),
        _ => {}
    }
    if !all_restart(facts) || is_cleaned_up(&facts.pod.spec, facts.observed) {
        return Verdict::plain(false);
    }
    Verdict {
        holds: true,
        reason: Some("RestartAllContainersStarted"),
        message: Some("container exited with restart policy rule".to_owned()),
    }
}
