//! Probes: what they check, when they check, and how outcomes become results.
//!
//! ```text
//!   new container ─► delay ─► check ─► threshold reached? ─► result
//!                      ▲        │ no        │ readiness: continues
//!                      └─period─┘           └ startup, failed liveness: on hold until the next container
//! ```
//! A probe without work has no timer: the container does not run, the startup probe has succeeded, or the probe waits for
//! the startup probe.

mod check;
mod outcome;
mod schedule;
mod state;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use model::{ContainerKind, ContainerRef, Pod, ProbeKind};

use crate::pipeline::pod_actions::is_sidecar;

pub use check::{CheckError, ProbeCheck, build_check};
pub use outcome::{CheckOutcome, exec_outcome, exec_timeout_outcome, http_outcome};
pub use schedule::{NextCheck, ProbeScheduleInputs, next_check};
pub use state::{ProbeState, restored_result};

/// Delays and thresholds of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Counts from the start of the container.
    pub initial_delay: Duration,
    pub period: Duration,
    pub timeout: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
}

impl ProbeSettings {
    /// Reads a probe spec; missing or invalid numbers get their defaults.
    pub fn of(probe: &Probe) -> Self {
        let at_least_one = |value: Option<i32>, default: u32| {
            u32::try_from(value.unwrap_or(0)).ok().filter(|value| *value > 0).unwrap_or(default)
        };
        let seconds = |value: u32| Duration::from_secs(u64::from(value));
        Self {
            initial_delay: seconds(at_least_one(probe.initial_delay_seconds, 0)),
            period: seconds(at_least_one(probe.period_seconds, 10)),
            timeout: seconds(at_least_one(probe.timeout_seconds, 1)),
            success_threshold: at_least_one(probe.success_threshold, 1),
            failure_threshold: at_least_one(probe.failure_threshold, 3),
        }
    }
}

pub fn probe_of(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Startup => container.startup_probe.as_ref(),
    }
}

/// All probes of a pod. Only regular containers and sidecars have any.
pub fn probes(pod: &Pod) -> impl Iterator<Item = (ContainerRef<'_>, ProbeKind)> {
    let probed = |entry: &ContainerRef<'_>| match entry.kind {
        ContainerKind::Regular => true,
        ContainerKind::Init => is_sidecar(entry.container),
        ContainerKind::Ephemeral => false,
    };
    pod.containers().filter(probed).flat_map(|entry| {
        let has = move |kind: &ProbeKind| probe_of(entry.container, *kind).is_some();
        ProbeKind::ALL.into_iter().filter(has).map(move |kind| (entry, kind))
    })
}

#[cfg(test)]
mod tests;
