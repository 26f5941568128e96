//! Decides which pod status is written to the API server, how urgently, and when the pod can be deleted there.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::{Pod, StatusUrgency, Timestamp, WorkerPhase, labels};

use crate::status::pod_status::{DISRUPTION, OWNED};

/// Whether containers of a pod may still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerActivity {
    /// Containers may run, so their resources are still in use.
    MayRun,
    /// No container of the pod runs.
    Stopped,
}

impl ContainerActivity {
    /// Derived from the phase of the pod's worker.
    pub fn of(worker: Option<WorkerPhase>) -> Self {
        match worker {
            Some(WorkerPhase::Terminated | WorkerPhase::Finished) => Self::Stopped,
            // Without a worker the pod may still run from a previous agent process.
            Some(WorkerPhase::Syncing | WorkerPhase::Terminating) | None => Self::MayRun,
        }
    }
}

/// The status to write to the API server, merged from the one it has and our own.
///
/// Fields of other writers are kept. A pod does not become terminal while its containers may run, and a terminal pod
/// is never ready.
pub fn status_to_report(
    current: &PodStatus,
    own: &PodStatus,
    activity: ContainerActivity,
    now: Timestamp,
) -> PodStatus {
    let mut status = own.clone();
    let becomes_terminal = !is_terminal(current) && is_terminal(own);
    status.conditions =
        Some(conditions(current, own, becomes_terminal && activity == ContainerActivity::Stopped, now))
            .filter(|conditions| !conditions.is_empty());
    status.resource_claim_statuses.clone_from(&current.resource_claim_statuses);
    status.extended_resource_claim_status.clone_from(&current.extended_resource_claim_status);
    status
        .node_allocatable_resource_claim_statuses
        .clone_from(&current.node_allocatable_resource_claim_statuses);
    status.nominated_node_name.clone_from(&current.nominated_node_name);
    status.observed_generation = own.observed_generation.max(current.observed_generation);
    if let Some(start) = &current.start_time {
        status.start_time = Some(start.clone());
    }
    if becomes_terminal && activity == ContainerActivity::MayRun {
        status.phase.clone_from(&current.phase);
        status.reason.clone_from(&current.reason);
        status.message.clone_from(&current.message);
    }
    if is_terminal(&status) {
        let phase = status.phase.clone().unwrap_or_default();
        for condition in status.conditions.iter_mut().flatten() {
            clear_readiness(condition, &phase, now);
        }
    }
    status
}

fn conditions(current: &PodStatus, own: &PodStatus, reports_end: bool, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions: Vec<PodCondition> = current
        .conditions
        .iter()
        .flatten()
        .filter(|condition| !OWNED.contains(&condition.type_.as_str()))
        .cloned()
        .collect();
    for condition in own.conditions.iter().flatten() {
        if OWNED.contains(&condition.type_.as_str()) {
            conditions.push(condition.clone());
        } else if condition.type_ == DISRUPTION && reports_end {
            // Other writers set this condition too. Ours is reported once the pod is terminal.
            match conditions.iter_mut().find(|other| other.type_ == DISRUPTION) {
                Some(other) if other.status == condition.status => {}
                Some(other) => *other = with_transition_time(condition.clone(), now),
                None => conditions.push(with_transition_time(condition.clone(), now)),
            }
        }
    }
    conditions
}

fn with_transition_time(condition: PodCondition, now: Timestamp) -> PodCondition {
    PodCondition { last_transition_time: Some(now.to_api_time()), ..condition }
}

fn clear_readiness(condition: &mut PodCondition, phase: &str, now: Timestamp) {
    if matches!(condition.type_.as_str(), "Ready" | "ContainersReady") && condition.status == "True" {
        let reason = if phase == "Failed" { "PodFailed" } else { "PodCompleted" };
        condition.status = "False".to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = None;
        condition.last_transition_time = Some(now.to_api_time());
    }
}

/// How urgently the change from `current` to `next` must be written.
pub fn urgency(current: &PodStatus, next: &PodStatus) -> StatusUrgency {
    if ready(current) != ready(next) || (is_terminal(next) && !is_terminal(current)) {
        StatusUrgency::Urgent
    } else if current.phase != next.phase {
        StatusUrgency::Prompt
    } else {
        StatusUrgency::Deferred
    }
}

/// Whether the pod object can be removed from the API server: it is marked for deletion, its status is terminal, and
/// its worker has finished.
pub fn can_be_deleted(current: &Pod, worker: Option<WorkerPhase>) -> bool {
    current.is_deleted()
        && current.annotation(labels::CONFIG_MIRROR).is_none()
        && is_terminal(&current.status)
        && worker == Some(WorkerPhase::Finished)
}

/// Whether the pod has finished: Succeeded or Failed.
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

fn ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests;
