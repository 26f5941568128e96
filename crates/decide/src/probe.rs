//! What the probes of a container ask, when, and what the answers mean.
//!
//! ```text
//!   new container ─► delay ─► check ─► threshold reached? ─► verdict
//!                      ▲        │ no        │ readiness: goes on
//!                      └─period─┘           └ startup, failed liveness: on hold until the next container
//! ```
//! A probe that has nothing to wait for but another event has no time at all: nothing ticks for a container that
//! does not run, a startup probe that succeeded, or a probe that waits for the startup probe.

mod check;
mod finding;
mod schedule;
mod state;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use model::{ContainerKind, ContainerRef, Pod, ProbeKind};

use crate::pod_actions::is_sidecar;

pub use check::{CheckError, ProbeCheck, check};
pub use finding::{Finding, exec_finding, exec_timeout_finding, http_finding};
pub use schedule::{Next, Situation, next};
pub use state::{ProbeState, kept_over_restart};

/// The numbers of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// After the container's start.
    pub initial_delay: Duration,
    /// Between two checks.
    pub period: Duration,
    /// For one check.
    pub timeout: Duration,
    /// Successes in a row that count.
    pub success_threshold: u32,
    /// Failures in a row that count.
    pub failure_threshold: u32,
}

impl Terms {
    /// The numbers of a spec; what is missing has its default.
    #[must_use]
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

/// A container's probe of a kind.
#[must_use]
pub fn probe_of(container: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Liveness => container.liveness_probe.as_ref(),
        ProbeKind::Readiness => container.readiness_probe.as_ref(),
        ProbeKind::Startup => container.startup_probe.as_ref(),
    }
}

/// All probes of a pod: those of regular containers and of sidecars.
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
