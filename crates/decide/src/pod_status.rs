//! What is reported about a pod: a pure function of spec, observation, worker, probe verdicts and the last report.

mod addresses;
mod conditions;
mod containers;
mod disruption;
mod lost;
mod mounts;
mod phase;
mod readiness;
mod resources;
mod restarts;
mod transitions;

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use model::{
    CgroupLimits, ObservedPod, Pod, PodGates, ProbeVerdicts, Rejection, RuntimeHandler, Timestamp,
    WorkerPhase, WorkerView,
};

use crate::qos::qos_class;
use crate::status_patch::is_same;
use crate::status_report::{Containers, is_terminal, reported};

pub(crate) use conditions::{DISRUPTION, OWNED};
pub use phase::{Phase, phase};

/// Everything a status is made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What the runtime holds.
    pub observed: Option<&'a ObservedPod>,
    /// How far its worker is.
    pub worker: Option<&'a WorkerView>,
    /// What its probes say.
    pub verdicts: Option<&'a ProbeVerdicts>,
    /// What was reported last.
    pub previous: Option<&'a PodStatus>,
    /// What this agent itself reported last.
    pub own: Option<&'a PodStatus>,
    /// How far a resize is; part of the conditions while the pod lives.
    pub resize: &'a [PodCondition],
    /// The limits of the pod's cgroup, where they are shown (`shows_cgroup`) and could be read.
    pub cgroup: Option<&'a CgroupLimits>,
    /// The runtime's handlers and what they can do.
    pub handlers: &'a [RuntimeHandler],
    /// What is the same for all pods of the node.
    pub node: &'a NodeFacts,
    /// Now.
    pub now: Timestamp,
}

/// What statuses need to know of the node.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The node's addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// Name of the runtime, which prefixes container ids.
    pub runtime_name: String,
    /// Whether the signal that stops a container is shown (`ContainerStopSignals`).
    pub shows_stop_signals: bool,
    /// Gates that change what is shown.
    pub gates: PodGates,
}

/// The statuses of a pod's containers by the lists they stand in.
#[derive(Clone, Debug, Default)]
struct Statuses {
    init: Vec<ContainerStatus>,
    regular: Vec<ContainerStatus>,
    ephemeral: Vec<ContainerStatus>,
}

/// The report to go on from: our own, or what an agent before us told the API server, if that goes further back.
#[must_use]
pub fn base<'a>(own: Option<&'a PodStatus>, told: &'a PodStatus) -> Option<&'a PodStatus> {
    let Some(begun) = &told.start_time else { return own };
    match own.map(|own| own.start_time.as_ref()) {
        Some(Some(own_begun)) if own_begun.0 <= begun.0 => own,
        Some(Some(_) | None) | None => Some(told),
    }
}

/// Whether the pod's cgroup is part of its status: once the API server shows the pod running. Until then, and in pods
/// that no API server has, what was granted stands for it.
#[must_use]
pub fn shows_cgroup(pod: &Pod, node: &NodeFacts) -> bool {
    node.gates.pod_level_resize && pod.status.phase.as_deref() == Some("Running")
}

/// The status to report.
#[must_use]
pub fn pod_status(facts: &Facts<'_>) -> PodStatus {
    let status = next_status(facts);
    let Some(previous) = facts.previous else { return status };
    if is_final(facts, previous) {
        return previous.clone();
    }
    let over = |status: &PodStatus| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if is_syncing(facts) && over(previous) && !over(&status) {
        // The pod begins another life under the same UID: what was said of the first one does not count.
        return next_status(&Facts { previous: None, ..*facts });
    }
    match transitions::check(facts.pod, previous, &status) {
        Ok(()) => status,
        Err(_) => previous.clone(),
    }
}

/// Whether nothing more can be said of the pod: the API server shows the end that we would report, and nothing runs.
/// What the runtime has forgotten meanwhile changes no end that was told.
fn is_final(facts: &Facts<'_>, previous: &PodStatus) -> bool {
    let told = &facts.pod.status;
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let lists = [&previous.init_container_statuses, &previous.container_statuses];
    !facts.pod.is_static()
        && is_terminal(told)
        && !facts.observed.is_some_and(ObservedPod::is_alive)
        && !lists.into_iter().flatten().flatten().any(runs)
        && is_same(told, &reported(told, previous, Containers::Ended, facts.now))
}

fn next_status(facts: &Facts<'_>) -> PodStatus {
    let pod = facts.pod;
    let start_time = facts.previous.and_then(|previous| previous.start_time.clone());
    let mut status = PodStatus {
        qos_class: Some(qos_class(&pod.spec).as_str().to_owned()),
        start_time: Some(start_time.unwrap_or_else(|| facts.now.to_api_time())),
        ..PodStatus::default()
    };
    status.observed_generation = pod.metadata.generation.filter(|generation| *generation != 0);
    let rejection = facts.worker.and_then(|worker| worker.rejection.as_ref());
    if let Some(rejection) = rejection
        && rejection.is_at_admission()
    {
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(rejection.message.clone());
        return status;
    }
    let mut statuses = containers::container_statuses(facts);
    addresses::fill(facts, &statuses, &mut status);
    readiness::judge(facts, &mut statuses);
    let phase = phase(pod, &statuses.init, &statuses.regular, &phase::Surroundings::of(facts));
    fill_phase(facts, &mut status, phase);
    if let Some(rejection) = rejection.filter(|rejection| ends_as_told(facts, rejection, phase)) {
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(rejection.message.clone());
    }
    status.conditions = Some(conditions::conditions(facts, &status, &statuses));
    if let (Some(conditions), Some(rejection)) = (&mut status.conditions, rejection) {
        let gained = disruption::gained(facts, rejection, conditions);
        conditions.extend(gained);
    }
    if facts.node.gates.pod_level_resize {
        status.allocated_resources = resources::pod_requests(pod);
        status.resources = Some(match shows_cgroup(pod, facts.node) {
            true => resources::pod_resources_in_force(pod, facts.cgroup, facts.previous),
            false => resources::pod_resources(pod),
        });
    }
    let some = |list: Vec<ContainerStatus>| (!list.is_empty()).then_some(list);
    status.init_container_statuses = some(statuses.init);
    status.container_statuses = some(statuses.regular);
    status.ephemeral_container_statuses = some(statuses.ephemeral);
    status
}

/// Whether a pod that the agent ends is Failed with the reason for it. A deadline that has passed is. For any other
/// reason it depends on how the containers take their stop: those that end well make the pod Succeeded.
fn ends_as_told(facts: &Facts<'_>, rejection: &Rejection, computed: Phase) -> bool {
    rejection.reason == "DeadlineExceeded" || (is_terminated(facts) && computed != Phase::Succeeded)
}

/// A pod that reached its end stays there, with the reason that was given for it.
fn fill_phase(facts: &Facts<'_>, status: &mut PodStatus, computed: Phase) {
    let old = facts.previous.unwrap_or(&facts.pod.status);
    let mut phase = computed;
    for known in [old.phase.as_deref(), facts.pod.status.phase.as_deref()] {
        phase = match known {
            Some("Succeeded") if !is_syncing(facts) && !phase.is_terminal() => Phase::Succeeded,
            Some("Failed") if !is_syncing(facts) && !phase.is_terminal() => Phase::Failed,
            _ => phase,
        };
    }
    // Whatever has not ended well by then has failed: a pod that is over can be let go.
    if is_terminated(facts) && !facts.pod.is_static() && !phase.is_terminal() {
        phase = Phase::Failed;
    }
    // The source's word is the last one.
    phase = match facts.pod.status.phase.as_deref() {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => phase,
    };
    status.phase = Some(phase.as_str().to_owned());
    if old.phase.as_deref() == Some(phase.as_str()) {
        let told = &facts.pod.status;
        let kept = |old: &Option<String>, told: &Option<String>| {
            old.clone().or_else(|| told.clone()).filter(|text| !text.is_empty())
        };
        status.reason = kept(&old.reason, &told.reason);
        status.message = kept(&old.message, &told.message);
    }
}

/// Whether the pod is kept running.
fn is_syncing(facts: &Facts<'_>) -> bool {
    facts.worker.is_none_or(|worker| worker.phase == WorkerPhase::Syncing)
}

/// Whether everything of the pod was stopped for good.
fn is_terminated(facts: &Facts<'_>) -> bool {
    facts.worker.is_some_and(|worker| worker.phase > WorkerPhase::Terminating)
}

#[cfg(test)]
mod tests;
