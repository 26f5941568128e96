use std::time::Duration;

use model::{ContainerId, ContainerState, ContainerStatus, ProbeKind, ProbeVerdict, Timestamp};

use super::{ProbeState, Terms};

/// What decides when a probe checks again.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// What it is for.
    pub kind: ProbeKind,
    /// Its numbers.
    pub terms: &'a Terms,
    /// What it knows.
    pub state: &'a ProbeState,
    /// The container as last seen.
    pub status: &'a ContainerStatus,
    /// The startup probe's verdict; `None` when the container has no such probe.
    pub startup: Option<Option<ProbeVerdict>>,
    /// Whether the pod is being stopped.
    pub terminating: bool,
    /// Whether the container is a sidecar, which outlives the regular containers.
    pub sidecar: bool,
    /// Now.
    pub now: Timestamp,
}

/// When a probe checks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After this time.
    In(Duration),
    /// Not before something else changes.
    Wait,
}

/// When a probe checks again.
#[must_use]
pub fn next(situation: &Situation<'_>) -> Next {
    let Situation { kind, state, status, .. } = *situation;
    let gone = status.state != ContainerState::Running || status.id != state.id;
    // Regular containers are stopped now, so whether they live is nobody's question; whether they are ready still is.
    let stopped = situation.terminating && kind != ProbeKind::Readiness && !situation.sidecar;
    let gated = kind != ProbeKind::Startup
        && situation.startup.is_some_and(|verdict| verdict != Some(ProbeVerdict::Success));
    if gone || stopped || gated || state.is_on_hold() {
        return Next::Wait;
    }
    let due = due(situation);
    // A clock that was set back must not stop a probe.
    let longest = situation.terms.initial_delay + situation.terms.period * 2;
    Next::In(due.since(situation.now).min(longest))
}

fn due(situation: &Situation<'_>) -> Timestamp {
    let Situation { kind, terms, state, now, .. } = *situation;
    let begin = state.started_at.min(now).after(terms.initial_delay);
    let grid = begin.after(phase(&state.id, kind, terms.period));
    let healthy = state.verdict == Some(ProbeVerdict::Success);
    match (kind, state.last_check) {
        (ProbeKind::Liveness, None) => on_grid(grid, terms.period, now),
        // Judged by the agent before this one: all containers at once would only be a burst.
        (ProbeKind::Readiness, None) if healthy => on_grid(grid, terms.period, now),
        // Users wait for these two, so the first check is made at once.
        (ProbeKind::Startup | ProbeKind::Readiness, None) => begin,
        (ProbeKind::Startup, Some(last)) => last.after(terms.period),
        (ProbeKind::Readiness, Some(last)) if !healthy => last.after(terms.period),
        (ProbeKind::Readiness | ProbeKind::Liveness, Some(last)) => {
            on_grid(grid, terms.period, last.min(now).after(terms.period / 2))
        }
    }
}

/// The first point of a probe's own grid that is not before `earliest`.
fn on_grid(origin: Timestamp, period: Duration, earliest: Timestamp) -> Timestamp {
    let behind = earliest.since(origin).as_nanos();
    let period = period.as_nanos().max(1);
    let steps = behind.div_ceil(period);
    let ahead = u64::try_from(steps.saturating_mul(period)).unwrap_or(0);
    origin.after(Duration::from_nanos(ahead))
}

/// Where in its period a container is probed: spread over all containers, and the same after a restart of the agent.
fn phase(id: &ContainerId, kind: ProbeKind, period: Duration) -> Duration {
    let bytes = id.as_str().bytes().chain(kind.as_str().bytes());
    // FNV-1a, with the high half folded in: ids are random, this only has to be stable.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis((hash ^ (hash >> 32)) % millis)
}
