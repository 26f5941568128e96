//! What of a pod's status goes to the API server, how soon, and when the pod is let go there.

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::{Pod, Timestamp, WorkerPhase, labels};

use crate::pod_status::{DISRUPTION, OWNED};

/// Whether containers of a pod may still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containers {
    /// They may; what they hold is not free.
    MayRun,
    /// Nothing of the pod runs any more.
    Ended,
}

impl Containers {
    /// What a worker's progress says of them.
    #[must_use]
    pub fn of(worker: Option<WorkerPhase>) -> Self {
        match worker {
            Some(WorkerPhase::Terminated | WorkerPhase::Finished) => Self::Ended,
            // A pod that no worker has come to may have been left running by another agent.
            Some(WorkerPhase::Syncing | WorkerPhase::Terminating) | None => Self::MayRun,
        }
    }
}

/// The status that the API server should show, from the one it shows and our own.
///
/// What others wrote stays. A pod is not said to be over while something of it may run, and what is over is never
/// said to be ready.
#[must_use]
pub fn reported(seen: &PodStatus, own: &PodStatus, containers: Containers, now: Timestamp) -> PodStatus {
    let mut status = own.clone();
    let ends = !is_terminal(seen) && is_terminal(own);
    status.conditions = Some(conditions(seen, own, ends && containers == Containers::Ended, now))
        .filter(|conditions| !conditions.is_empty());
    status.resource_claim_statuses.clone_from(&seen.resource_claim_statuses);
    status.extended_resource_claim_status.clone_from(&seen.extended_resource_claim_status);
    status
        .node_allocatable_resource_claim_statuses
        .clone_from(&seen.node_allocatable_resource_claim_statuses);
    status.nominated_node_name.clone_from(&seen.nominated_node_name);
    status.observed_generation = own.observed_generation.max(seen.observed_generation);
    if let Some(start) = &seen.start_time {
        status.start_time = Some(start.clone());
    }
    if ends && containers == Containers::MayRun {
        status.phase.clone_from(&seen.phase);
        status.reason.clone_from(&seen.reason);
        status.message.clone_from(&seen.message);
    }
    if is_terminal(&status) {
        let phase = status.phase.clone().unwrap_or_default();
        for condition in status.conditions.iter_mut().flatten() {
            no_longer_ready(condition, &phase, now);
        }
    }
    status
}

fn conditions(seen: &PodStatus, own: &PodStatus, ended: bool, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions: Vec<PodCondition> = seen
        .conditions
        .iter()
        .flatten()
        .filter(|condition| !OWNED.contains(&condition.type_.as_str()))
        .cloned()
        .collect();
    for condition in own.conditions.iter().flatten() {
        if OWNED.contains(&condition.type_.as_str()) {
            conditions.push(condition.clone());
        } else if condition.type_ == DISRUPTION && ended {
            // Others may say why a pod is disturbed, too. Ours is told with the end of the pod.
            let known = conditions.iter().position(|other| other.type_ == DISRUPTION);
            match known.and_then(|place| conditions.get_mut(place)) {
                Some(other) if other.status == condition.status => {}
                Some(other) => *other = moved(condition.clone(), now),
                None => conditions.push(moved(condition.clone(), now)),
            }
        }
    }
    conditions
}

fn moved(condition: PodCondition, now: Timestamp) -> PodCondition {
    PodCondition { last_transition_time: Some(now.to_api_time()), ..condition }
}

fn no_longer_ready(condition: &mut PodCondition, phase: &str, now: Timestamp) {
    if matches!(condition.type_.as_str(), "Ready" | "ContainersReady") && condition.status == "True" {
        let reason = if phase == "Failed" { "PodFailed" } else { "PodCompleted" };
        condition.status = "False".to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = None;
        condition.last_transition_time = Some(now.to_api_time());
    }
}

/// How soon a change is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// Traffic or controllers wait for it: before everything else.
    Urgent,
    /// At once.
    Prompt,
    /// With what comes in the next moment: a pod on its way up changes often.
    Relaxed,
}

/// How soon the change from one status to another is to be written.
#[must_use]
pub fn haste(seen: &PodStatus, next: &PodStatus) -> Haste {
    if ready(seen) != ready(next) || (is_terminal(next) && !is_terminal(seen)) {
        Haste::Urgent
    } else if seen.phase != next.phase {
        Haste::Prompt
    } else {
        Haste::Relaxed
    }
}

/// Whether the pod can go from the API server: it was deleted, shown to be over, and nothing of it is left here.
#[must_use]
pub fn can_be_deleted(seen: &Pod, worker: Option<WorkerPhase>) -> bool {
    seen.is_deleted()
        && seen.annotation(labels::CONFIG_MIRROR).is_none()
        && is_terminal(&seen.status)
        && worker == Some(WorkerPhase::Finished)
}

/// Whether a status says that the pod is over.
#[must_use]
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

fn ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests;
