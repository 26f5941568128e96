use std::time::Duration;

use model::{ContainerId, ContainerState, ContainerStatus, ProbeKind, ProbeResult, Timestamp};
use values::fnv::Fnv64a;

use super::{ProbeSettings, ProbeState};

/// Everything that decides when a probe checks again.
#[derive(Clone, Copy, Debug)]
pub struct ProbeScheduleInputs<'a> {
    pub kind: ProbeKind,
    pub settings: &'a ProbeSettings,
    pub state: &'a ProbeState,
    /// The container as last observed.
    pub status: &'a ContainerStatus,
    /// The startup probe's result; the outer `None` means that the container has no startup probe.
    pub startup: Option<Option<ProbeResult>>,
    pub terminating: bool,
    /// A sidecar keeps running until the regular containers of a terminating pod have stopped.
    pub sidecar: bool,
    pub now: Timestamp,
}

/// When a probe checks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextCheck {
    In(Duration),
    /// No check until the container, the pod or the startup probe changes.
    Wait,
}

/// Decides when a probe checks again.
pub fn next_check(inputs: &ProbeScheduleInputs<'_>) -> NextCheck {
    let ProbeScheduleInputs { kind, state, status, .. } = *inputs;
    let not_running = status.state != ContainerState::Running || status.id != state.id;
    // The regular containers are being stopped: their liveness no longer matters, their readiness still does.
    let stopping = inputs.terminating && kind != ProbeKind::Readiness && !inputs.sidecar;
    let waits_for_startup = kind != ProbeKind::Startup
        && inputs.startup.is_some_and(|result| result != Some(ProbeResult::Success));
    if not_running || stopping || waits_for_startup || state.is_on_hold() {
        return NextCheck::Wait;
    }
    let due = due(inputs);
    // A clock that was set back must not delay the check.
    let max_delay = inputs.settings.initial_delay + inputs.settings.period * 2;
    NextCheck::In(due.since(inputs.now).min(max_delay))
}

fn due(inputs: &ProbeScheduleInputs<'_>) -> Timestamp {
    let ProbeScheduleInputs { kind, settings, state, now, .. } = *inputs;
    let first_check = state.started_at.min(now).after(settings.initial_delay);
    let grid = first_check.after(phase(&state.id, kind, settings.period));
    let healthy = state.result == Some(ProbeResult::Success);
    match (kind, state.last_check) {
        (ProbeKind::Liveness, None) => on_grid(grid, settings.period, now),
        // The result is from before a restart of the agent. Checking all containers at once would be a burst.
        (ProbeKind::Readiness, None) if healthy => on_grid(grid, settings.period, now),
        // Users wait for these two, so the first check is not delayed.
        (ProbeKind::Startup | ProbeKind::Readiness, None) => first_check,
        (ProbeKind::Startup, Some(last)) => last.after(settings.period),
        (ProbeKind::Readiness, Some(last)) if !healthy => last.after(settings.period),
        (ProbeKind::Readiness | ProbeKind::Liveness, Some(last)) => {
            on_grid(grid, settings.period, last.min(now).after(settings.period / 2))
        }
    }
}

/// The first instant `origin + n * period` that is not before `earliest`.
fn on_grid(origin: Timestamp, period: Duration, earliest: Timestamp) -> Timestamp {
    let behind = earliest.since(origin).as_nanos();
    let period = period.as_nanos().max(1);
    let steps = behind.div_ceil(period);
    let ahead = u64::try_from(steps.saturating_mul(period)).unwrap_or(0);
    origin.after(Duration::from_nanos(ahead))
}

/// Offset of a probe within its period: different for each container, and the same after a restart of the agent.
fn phase(id: &ContainerId, kind: ProbeKind, period: Duration) -> Duration {
    let mut hash = Fnv64a::new();
    hash.write(id.as_str().as_bytes());
    hash.write(kind.as_str().as_bytes());
    let hash = hash.finish();
    let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
    // The low bits of FNV are badly distributed, so the high half is folded in.
    Duration::from_millis((hash ^ (hash >> 32)) % millis)
}
