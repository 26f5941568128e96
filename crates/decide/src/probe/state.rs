use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use model::{ContainerId, ContainerStatus, Pod, ProbeKind, ProbeVerdict, Timestamp};

use super::{Finding, Terms};
use crate::pod_actions::is_sidecar;

/// Containers that started this long before the agent were judged by the agent before it.
const RESTART_GRACE: Duration = Duration::from_secs(10);

/// What a probe knows of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeState {
    /// The container.
    pub id: ContainerId,
    /// When it started.
    pub started_at: Timestamp,
    /// The verdict, `None` while there is none.
    pub verdict: Option<ProbeVerdict>,
    /// When the last check of this agent began.
    pub last_check: Option<Timestamp>,
    last_found: Option<ProbeVerdict>,
    in_a_row: u32,
    on_hold: bool,
}

impl ProbeState {
    /// A container that nobody judged yet.
    #[must_use]
    pub fn new(status: &ContainerStatus) -> Self {
        Self {
            id: status.id.clone(),
            started_at: status.started_at,
            verdict: None,
            last_check: None,
            last_found: None,
            in_a_row: 0,
            on_hold: false,
        }
    }

    /// A container that was judged before. A verdict that ends a probe ends it here too.
    #[must_use]
    pub fn judged(status: &ContainerStatus, kind: ProbeKind, verdict: ProbeVerdict) -> Self {
        Self { verdict: Some(verdict), on_hold: is_final(kind, verdict), ..Self::new(status) }
    }

    /// Whether the last check counts only if it was good. A container has `failureThreshold` times `periodSeconds` to
    /// start; the check right at its begin is made in the hope that it is up already.
    #[must_use]
    pub fn is_early(&self, kind: ProbeKind, terms: &Terms) -> bool {
        let counts_from = self.started_at.after(terms.initial_delay).after(terms.period);
        kind == ProbeKind::Startup && self.last_check.is_some_and(|last| last < counts_from)
    }

    /// Takes in what a check found; says whether the verdict changed.
    pub fn record(&mut self, kind: ProbeKind, terms: &Terms, finding: &Finding) -> bool {
        // A check that could not be made leaves everything as it is.
        let Some(found) = finding.verdict() else { return false };
        if found == ProbeVerdict::Failure && self.is_early(kind, terms) {
            return false;
        }
        if self.last_found == Some(found) {
            self.in_a_row = self.in_a_row.saturating_add(1);
        } else {
            self.last_found = Some(found);
            self.in_a_row = 1;
        }
        let threshold = match found {
            ProbeVerdict::Success => terms.success_threshold,
            ProbeVerdict::Failure => terms.failure_threshold,
        };
        if self.in_a_row < threshold {
            return false;
        }
        if is_final(kind, found) {
            self.on_hold = true;
            self.in_a_row = 0;
        }
        self.verdict.replace(found) != Some(found)
    }

    /// Whether nothing more is asked of this container.
    #[must_use]
    pub fn is_on_hold(&self) -> bool {
        self.on_hold
    }
}

/// A startup probe is over with its verdict; a container that failed its liveness probe will be killed.
fn is_final(kind: ProbeKind, verdict: ProbeVerdict) -> bool {
    match kind {
        ProbeKind::Startup => true,
        ProbeKind::Liveness => verdict == ProbeVerdict::Failure,
        ProbeKind::Readiness => false,
    }
}

/// The verdict that a container keeps when its agent was restarted and left none behind: what the pod's last
/// reported status says of it.
#[must_use]
pub fn kept_over_restart(
    kind: ProbeKind,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    agent_started_at: Timestamp,
) -> Option<ProbeVerdict> {
    let old = !status.started_at.is_zero() && status.started_at.after(RESTART_GRACE) < agent_started_at;
    let reported = [&pod.status.container_statuses, &pod.status.init_container_statuses];
    let reported = reported.into_iter().flatten().flatten().find(|reported| reported.name == container.name);
    // The report must be of this very container.
    let same = reported
        .and_then(|reported| reported.container_id.as_deref())
        .is_some_and(|id| id.split_once("://").map_or(id, |(_, id)| id) == status.id.as_str());
    let keeps = match kind {
        ProbeKind::Liveness => false,
        ProbeKind::Startup => {
            let started = same && reported.and_then(|reported| reported.started) == Some(true);
            started && (old || is_sidecar(container))
        }
        ProbeKind::Readiness => {
            let ready = |condition: &k8s_openapi::api::core::v1::PodCondition| {
                condition.type_ == "Ready" && condition.status == "True"
            };
            old && same && pod.status.conditions.iter().flatten().any(ready)
        }
    };
    keeps.then_some(ProbeVerdict::Success)
}
