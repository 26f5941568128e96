use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerStatus, Pod, ProbeKind, ProbeResult, Timestamp};

use super::{CheckOutcome, ProbeSettings};
use crate::pipeline::pod_actions::is_sidecar;

/// A container that started longer than this before the agent already had a result from the previous agent.
const RESTART_GRACE: Duration = Duration::from_secs(10);

/// State of one probe for one run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeState {
    pub id: ContainerId,
    pub started_at: Timestamp,
    /// `None` until a threshold is reached.
    pub result: Option<ProbeResult>,
    /// Start of the last check by this agent.
    pub last_check: Option<Timestamp>,
    last_outcome: Option<ProbeResult>,
    consecutive: u32,
    on_hold: bool,
}

impl ProbeState {
    /// A container without a result.
    pub fn new(status: &ContainerStatus) -> Self {
        Self {
            id: status.id.clone(),
            started_at: status.started_at,
            result: None,
            last_check: None,
            last_outcome: None,
            consecutive: 0,
            on_hold: false,
        }
    }

    /// A container with a result from before a restart of the agent. The probe is on hold if that result is final.
    pub fn with_result(status: &ContainerStatus, kind: ProbeKind, result: ProbeResult) -> Self {
        Self { result: Some(result), on_hold: is_final(kind, result), ..Self::new(status) }
    }

    /// Whether a failure of the last check is ignored. A container has `failureThreshold` times `periodSeconds` to start;
    /// the first startup check is made earlier, in case the container is up already.
    pub fn is_early(&self, kind: ProbeKind, settings: &ProbeSettings) -> bool {
        let counts_from = self.started_at.after(settings.initial_delay).after(settings.period);
        kind == ProbeKind::Startup && self.last_check.is_some_and(|last| last < counts_from)
    }

    /// Records the outcome of a check. Returns whether the result changed.
    pub fn record(&mut self, kind: ProbeKind, settings: &ProbeSettings, outcome: &CheckOutcome) -> bool {
        // A check that could not be made changes nothing.
        let Some(result) = outcome.result() else { return false };
        if result == ProbeResult::Failure && self.is_early(kind, settings) {
            return false;
        }
        if self.last_outcome == Some(result) {
            self.consecutive = self.consecutive.saturating_add(1);
        } else {
            self.last_outcome = Some(result);
            self.consecutive = 1;
        }
        let threshold = match result {
            ProbeResult::Success => settings.success_threshold,
            ProbeResult::Failure => settings.failure_threshold,
        };
        if self.consecutive < threshold {
            return false;
        }
        if is_final(kind, result) {
            self.on_hold = true;
            self.consecutive = 0;
        }
        self.result.replace(result) != Some(result)
    }

    /// Whether this container is no longer checked.
    pub fn is_on_hold(&self) -> bool {
        self.on_hold
    }
}

/// A startup probe ends with its first result; a container that failed its liveness probe is killed.
fn is_final(kind: ProbeKind, result: ProbeResult) -> bool {
    match kind {
        ProbeKind::Startup => true,
        ProbeKind::Liveness => result == ProbeResult::Failure,
        ProbeKind::Readiness => false,
    }
}

/// The result of a container after a restart of the agent without a checkpoint, taken from the pod's last reported status.
pub fn restored_result(
    kind: ProbeKind,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    agent_started_at: Timestamp,
) -> Option<ProbeResult> {
    let started_before_agent =
        !status.started_at.is_zero() && status.started_at.after(RESTART_GRACE) < agent_started_at;
    let reported = [&pod.status.container_statuses, &pod.status.init_container_statuses];
    let reported = reported.into_iter().flatten().flatten().find(|reported| reported.name == container.name);
    // The reported status must be that of the same container.
    let same = reported
        .and_then(|reported| reported.container_id.as_deref())
        .is_some_and(|id| id.split_once("://").map_or(id, |(_, id)| id) == status.id.as_str());
    let passed = match kind {
        ProbeKind::Liveness => false,
        ProbeKind::Startup => {
            let started = same && reported.and_then(|reported| reported.started) == Some(true);
            started && (started_before_agent || is_sidecar(container))
        }
        ProbeKind::Readiness => {
            let ready = |condition: &k8s_openapi::api::core::v1::PodCondition| {
                condition.type_ == "Ready" && condition.status == "True"
            };
            started_before_agent && same && pod.status.conditions.iter().flatten().any(ready)
        }
    };
    passed.then_some(ProbeResult::Success)
}
