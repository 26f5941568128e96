//! Computes the status of a pod from its spec, observation, worker, probe results and previous status.

mod addresses;
mod conditions;
mod containers;
mod disruption;
mod missing_containers;
mod mounts;
mod phase;
mod readiness;
mod replacement;
mod resources;
mod restart_all;
mod transitions;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus, ResourceStatus};
use model::{
    CgroupLimits, ObservedPod, Pod, PodGates, PodResources, ProbeResults, Rejection, RejectionKind,
    Replacement, RuntimeHandler, Timestamp, WorkerPhase, WorkerView,
};

use crate::pod_resources::qos::qos_class;
use crate::status::status_patch::is_same;
use crate::status::status_report::{ContainerActivity, is_terminal, status_to_report};

pub(crate) use conditions::{DISRUPTION, OWNED};
pub use phase::{Phase, phase};

/// Everything a pod status is computed from.
#[derive(Clone, Copy, Debug)]
pub struct PodStatusInputs<'a> {
    pub pod: &'a Pod,
    pub observed: Option<&'a ObservedPod>,
    pub worker: Option<&'a WorkerView>,
    /// The containers that the current sync replaces. Must have been read before `observed`.
    pub replacement: Option<&'a Replacement>,
    pub probe_results: Option<&'a ProbeResults>,
    pub previous: Option<&'a PodStatus>,
    /// The status that this agent process computed last; unlike `previous`, never one of an earlier process.
    pub own: Option<&'a PodStatus>,
    /// Resize conditions; included until the pod is terminated.
    pub resize: &'a [PodCondition],
    /// The resources that are recorded as actuated; `None` without a record.
    pub actuated: Option<&'a PodResources>,
    /// The limits of the pod's cgroup, if [`shows_cgroup`] is true and they could be read.
    pub cgroup: Option<&'a CgroupLimits>,
    /// Health of the devices of each regular container.
    pub resource_health: &'a BTreeMap<String, Vec<ResourceStatus>>,
    pub handlers: &'a [RuntimeHandler],
    pub node: &'a PodStatusNodeInputs,
    pub now: Timestamp,
}

/// Inputs of a pod status that are the same for all pods of the node.
#[derive(Clone, Debug, Default)]
pub struct PodStatusNodeInputs {
    /// Primary address first.
    pub addresses: Vec<IpAddr>,
    /// Prefix of container IDs, for example `containerd`.
    pub runtime_name: String,
    /// Feature gate `ContainerStopSignals`: include `stopSignal` in container statuses.
    pub shows_stop_signals: bool,
    pub gates: PodGates,
}

#[derive(Clone, Debug, Default)]
struct ContainerStatuses {
    init: Vec<ContainerStatus>,
    regular: Vec<ContainerStatus>,
    ephemeral: Vec<ContainerStatus>,
}

/// The previous status to continue from: our own, or the one at the API server if its start time is earlier.
pub fn previous_status<'a>(
    own: Option<&'a PodStatus>,
    at_api_server: &'a PodStatus,
) -> Option<&'a PodStatus> {
    let Some(api_start) = &at_api_server.start_time else { return own };
    match own.map(|own| own.start_time.as_ref()) {
        Some(Some(own_start)) if own_start.0 <= api_start.0 => own,
        Some(Some(_) | None) | None => Some(at_api_server),
    }
}

/// Whether the status shows the limits of the pod's cgroup: only once the API server has the pod as `Running`. Before
/// that, and for pods without an API object, it shows the allocated resources.
pub fn shows_cgroup(pod: &Pod, node: &PodStatusNodeInputs) -> bool {
    node.gates.pod_level_resize && pod.status.phase.as_deref() == Some("Running")
}

pub fn pod_status(inputs: &PodStatusInputs<'_>) -> PodStatus {
    let standing = replacement::observation_before_replacement(inputs);
    let inputs = &PodStatusInputs { observed: standing.as_ref().or(inputs.observed), ..*inputs };
    let status = next_status(inputs);
    let Some(previous) = inputs.previous else { return status };
    if is_final(inputs, previous) {
        return previous.clone();
    }
    if is_syncing(inputs) && is_terminal(previous) && !is_terminal(&status) {
        // The pod is started again under the same UID, so the previous status does not apply.
        return next_status(&PodStatusInputs { previous: None, ..*inputs });
    }
    match transitions::check(inputs.pod, previous, &status) {
        Ok(()) => status,
        Err(_) => previous.clone(),
    }
}

/// Whether the status is final: the API server has the terminal status that we would report, and nothing runs.
/// Containers that the runtime has removed since do not change it.
fn is_final(inputs: &PodStatusInputs<'_>, previous: &PodStatus) -> bool {
    let at_api_server = &inputs.pod.status;
    let runs = |status: &ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let lists = [&previous.init_container_statuses, &previous.container_statuses];
    !inputs.pod.is_static()
        && is_terminal(at_api_server)
        && !inputs.observed.is_some_and(ObservedPod::is_alive)
        && !lists.into_iter().flatten().flatten().any(runs)
        && is_same(
            at_api_server,
            &status_to_report(at_api_server, previous, ContainerActivity::Stopped, inputs.now),
        )
}

fn next_status(inputs: &PodStatusInputs<'_>) -> PodStatus {
    let pod = inputs.pod;
    let start_time = inputs.previous.and_then(|previous| previous.start_time.clone());
    let mut status = PodStatus {
        qos_class: Some(qos_class(&pod.spec).as_str().to_owned()),
        start_time: Some(start_time.unwrap_or_else(|| inputs.now.to_api_time())),
        ..PodStatus::default()
    };
    status.observed_generation = pod.metadata.generation.filter(|generation| *generation != 0);
    let rejection = inputs.worker.and_then(|worker| worker.rejection.as_ref());
    if let Some(rejection) = rejection
        && rejection.kind == RejectionKind::Admission
    {
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(rejection.status_message().into_owned());
        return status;
    }
    let mut statuses = containers::container_statuses(inputs);
    addresses::fill(inputs, &statuses, &mut status);
    readiness::set_readiness(inputs, &mut statuses);
    let phase = phase(pod, &statuses.init, &statuses.regular, &phase::PhaseInputs::of(inputs));
    fill_phase(inputs, &mut status, phase);
    if let Some(rejection) = rejection.filter(|rejection| fails_with_rejection(inputs, rejection, phase)) {
        status.phase = Some(Phase::Failed.as_str().to_owned());
        status.reason = Some(rejection.reason.clone());
        status.message = Some(rejection.message.clone());
    }
    status.conditions = Some(conditions::conditions(inputs, &status, &statuses));
    if let (Some(conditions), Some(rejection)) = (&mut status.conditions, rejection) {
        let condition = disruption::disruption_condition(inputs, rejection, conditions);
        conditions.extend(condition);
    }
    if inputs.node.gates.pod_level_resize {
        status.allocated_resources = resources::pod_requests(pod);
        status.resources = Some(match shows_cgroup(pod, inputs.node) {
            true => resources::actuated_pod_resources(pod, inputs.cgroup, inputs.previous),
            false => resources::pod_resources(pod),
        });
    }
    for container in &mut statuses.regular {
        container.allocated_resources_status = inputs.resource_health.get(&container.name).cloned();
    }
    let some = |list: Vec<ContainerStatus>| (!list.is_empty()).then_some(list);
    status.init_container_statuses = some(statuses.init);
    status.container_statuses = some(statuses.regular);
    status.ephemeral_container_statuses = some(statuses.ephemeral);
    status
}

/// Whether a pod that the agent terminates becomes Failed with the reason of the rejection. An exceeded deadline always
/// does. For other reasons the exit codes decide: the pod is Succeeded if all containers exit with 0.
fn fails_with_rejection(inputs: &PodStatusInputs<'_>, rejection: &Rejection, computed: Phase) -> bool {
    rejection.kind == RejectionKind::Deadline || (is_terminated(inputs) && computed != Phase::Succeeded)
}

/// Sets the phase. Unless the pod is synced again, a terminal phase is kept with its reason and message.
fn fill_phase(inputs: &PodStatusInputs<'_>, status: &mut PodStatus, computed: Phase) {
    let old = inputs.previous.unwrap_or(&inputs.pod.status);
    let mut phase = computed;
    for reported in [old.phase.as_deref(), inputs.pod.status.phase.as_deref()] {
        phase = match reported {
            Some("Succeeded") if !is_syncing(inputs) && !phase.is_terminal() => Phase::Succeeded,
            Some("Failed") if !is_syncing(inputs) && !phase.is_terminal() => Phase::Failed,
            _ => phase,
        };
    }
    // A terminated API pod needs a terminal phase before it can be deleted.
    if is_terminated(inputs) && !inputs.pod.is_static() && !phase.is_terminal() {
        phase = Phase::Failed;
    }
    // A terminal phase at the source takes precedence.
    phase = match inputs.pod.status.phase.as_deref() {
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        _ => phase,
    };
    status.phase = Some(phase.as_str().to_owned());
    if old.phase.as_deref() == Some(phase.as_str()) {
        let at_api_server = &inputs.pod.status;
        let first_of = |old: &Option<String>, at_api_server: &Option<String>| {
            old.clone().or_else(|| at_api_server.clone()).filter(|text| !text.is_empty())
        };
        status.reason = first_of(&old.reason, &at_api_server.reason);
        status.message = first_of(&old.message, &at_api_server.message);
    }
}

fn is_syncing(inputs: &PodStatusInputs<'_>) -> bool {
    inputs.worker.is_none_or(|worker| worker.phase == WorkerPhase::Syncing)
}

/// Whether all containers of the pod have been stopped and none is started again.
fn is_terminated(inputs: &PodStatusInputs<'_>) -> bool {
    inputs.worker.is_some_and(|worker| worker.phase > WorkerPhase::Terminating)
}

#[cfg(test)]
mod tests;
