//! Graceful node shutdown: when each pod is terminated, with which grace period, and the recorded shutdown state.
//!
//! Pods are terminated in groups by priority, lowest first. The next group starts when all pods of the current one are
//! terminated and their volumes unmounted, or when its period has elapsed.

mod state;

use std::sync::Arc;
use std::time::Duration;

use model::{KillOptions, Pod, Rejection, RejectionKind, WorkerPhase, WorkerView};

pub use state::{ShutdownOnset, ShutdownState};

use crate::pipeline::grace::MAX_GRACE_SECONDS;
use crate::pod_resources::critical_pods::SYSTEM_CRITICAL_PRIORITY;
use crate::status::status_report::is_terminal;

/// Status reason of pods that a shutdown terminates.
pub const REASON: &str = "Terminated";
/// Status message of pods that a shutdown terminates.
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// Message of the `Ready` condition during a shutdown.
pub const NODE_PROBLEM: &str = "node is shutting down";
/// Reason of node events about the shutdown.
pub const EVENT: &str = "Shutdown";

const DEFAULT_PRIORITY: i32 = 0;
/// Minimum time before a pod is reported as late.
const MIN_LATE_AFTER: Duration = Duration::from_secs(10);

/// Grace period for pods of this priority up to that of the next period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownPeriod {
    /// Lowest priority of the group; pods below all priorities are in the first group.
    pub priority: i32,
    pub seconds: u64,
}

/// Sorted by priority, lowest first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownPeriods(Vec<ShutdownPeriod>);

impl ShutdownPeriods {
    /// The configured periods by priority, or two groups derived from `shutdownGracePeriod` and
    /// `shutdownGracePeriodCriticalPods`. `None` when graceful shutdown is not configured.
    pub fn of(by_priority: &[ShutdownPeriod], total: Duration, critical: Duration) -> Option<Self> {
        let mut periods = by_priority.to_vec();
        if periods.is_empty() && !total.is_zero() {
            let others = total.checked_sub(critical)?;
            periods = vec![
                ShutdownPeriod { priority: DEFAULT_PRIORITY, seconds: others.as_secs() },
                ShutdownPeriod { priority: SYSTEM_CRITICAL_PRIORITY, seconds: critical.as_secs() },
            ];
        }
        periods.sort_by_key(|period| period.priority);
        (!periods.is_empty()).then_some(Self(periods))
    }

    /// How long the shutdown must be inhibited for all groups.
    pub fn total(&self) -> Duration {
        let seconds = self.0.iter().fold(0_u64, |sum, period| sum.saturating_add(period.seconds));
        Duration::from_secs(seconds.min(MAX_GRACE_SECONDS))
    }

    /// In termination order.
    pub fn iter(&self) -> impl Iterator<Item = ShutdownPeriod> + '_ {
        self.0.iter().copied()
    }

    /// Index of the pod's group in [`Self::iter`].
    pub fn group_of(&self, pod: &Pod) -> usize {
        let priority = pod.spec.priority.unwrap_or(DEFAULT_PRIORITY);
        let first_above = self.0.partition_point(|period| period.priority < priority);
        match self.0.get(first_above) {
            Some(period) if period.priority == priority => first_above,
            Some(_) | None => first_above.saturating_sub(1),
        }
    }
}

impl ShutdownPeriod {
    pub fn time(self) -> Duration {
        Duration::from_secs(self.seconds.min(MAX_GRACE_SECONDS))
    }

    /// How to kill a pod of this group: with its own grace period, at most that of the group.
    pub fn kill_plan(self, pod: &Pod) -> PodKillPlan {
        let own =
            pod.spec.termination_grace_period_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
        let grace = self.seconds.min(own.unwrap_or(self.seconds)).clamp(1, MAX_GRACE_SECONDS);
        let rejection = Rejection {
            kind: RejectionKind::NodeShutdown,
            reason: REASON.to_owned(),
            message: MESSAGE.to_owned(),
        };
        PodKillPlan {
            options: KillOptions { grace_override: Some(grace), rejection: Some(rejection) },
            late_after: Duration::from_secs(grace + grace / 2).max(MIN_LATE_AFTER),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKillPlan {
    /// Sent to the worker.
    pub options: KillOptions,
    /// The pod is reported as late after this time.
    pub late_after: Duration,
}

/// The pods to terminate with a group: its own, and pods of earlier groups that appeared after their group started.
/// `is_terminating` is true for pods that were already ordered to stop.
pub fn pods_to_terminate(
    periods: &ShutdownPeriods,
    group: usize,
    pods: &[Arc<Pod>],
    is_terminating: impl Fn(&Pod) -> bool,
) -> Vec<Arc<Pod>> {
    let mut due: Vec<Arc<Pod>> =
        pods.iter().filter(|pod| periods.group_of(pod) <= group && !is_terminating(pod)).cloned().collect();
    due.sort_by(|one, other| one.full_name.cmp(&other.full_name));
    due
}

/// Whether the shutdown has to terminate the pod.
pub fn is_active(pod: &Pod, worker: Option<&WorkerView>) -> bool {
    match worker.map(|worker| worker.phase) {
        Some(WorkerPhase::Terminated | WorkerPhase::Finished) => false,
        Some(WorkerPhase::Terminating) => true,
        Some(WorkerPhase::Syncing) | None => !is_terminal(&pod.status),
    }
}

/// The remaining parts of a pod after its termination was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// Containers may still run.
    Running,
    /// Volumes may still be mounted.
    Mounts,
    Nothing,
}

/// The remaining parts of a pod after its termination was ordered. Without a worker the pod is either removed, or still
/// desired and its worker has not received the order yet.
pub fn remainder(desired: Option<&Pod>, worker: Option<&WorkerView>) -> Remainder {
    match worker.map(|worker| worker.phase) {
        Some(WorkerPhase::Syncing | WorkerPhase::Terminating) => Remainder::Running,
        Some(WorkerPhase::Terminated) => Remainder::Mounts,
        Some(WorkerPhase::Finished) => Remainder::Nothing,
        None if desired.is_some() => Remainder::Running,
        None => Remainder::Nothing,
    }
}

#[cfg(test)]
mod tests;
