//! The end of the machine: which pods end when, with how much time, and what is told and written down of it.
//!
//! Pods end in groups by priority, the lowest first. A group is over when nothing of its pods is left, their mounts
//! included, or when its time is over; then the next one begins.

mod record;

use std::sync::Arc;
use std::time::Duration;

use model::{KillOptions, Pod, Rejection, WorkerPhase, WorkerView};

pub use record::{Onset, Record};

use crate::grace::LONGEST_GRACE_SECONDS;
use crate::status_report::is_terminal;

/// The reason that pods show which ended because the machine did.
pub const REASON: &str = "Terminated";
/// Its sentence.
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
/// Why the node is not ready meanwhile.
pub const NODE_PROBLEM: &str = "node is shutting down";
/// The reason of the node's events.
pub const EVENT: &str = "Shutdown";

/// Priority of pods that have none.
const DEFAULT_PRIORITY: i32 = 0;
/// Priority from which on pods count as critical.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// The shortest wait for a pod's end before it is told as late.
const SHORTEST_WAIT: Duration = Duration::from_secs(10);

/// The time of pods from a priority on, up to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Lowest priority that it is for; pods below all of them are in the first group.
    pub priority: i32,
    /// The time.
    pub seconds: u64,
}

/// All periods, by priority from low to high; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Periods(Vec<Period>);

impl Periods {
    /// The configured ones: by priority, or made of a whole time and the part of it that critical pods have. `None`
    /// when nothing is configured: pods then end with the machine.
    #[must_use]
    pub fn of(by_priority: &[Period], whole: Duration, critical: Duration) -> Option<Self> {
        let mut periods = by_priority.to_vec();
        if periods.is_empty() && !whole.is_zero() {
            let others = whole.checked_sub(critical)?;
            periods = vec![
                Period { priority: DEFAULT_PRIORITY, seconds: others.as_secs() },
                Period { priority: CRITICAL_PRIORITY, seconds: critical.as_secs() },
            ];
        }
        periods.sort_by_key(|period| period.priority);
        (!periods.is_empty()).then_some(Self(periods))
    }

    /// How long the machine's end must be held up for all of them.
    #[must_use]
    pub fn whole(&self) -> Duration {
        let seconds = self.0.iter().fold(0_u64, |sum, period| sum.saturating_add(period.seconds));
        Duration::from_secs(seconds.min(LONGEST_GRACE_SECONDS))
    }

    /// The periods, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = Period> + '_ {
        self.0.iter().copied()
    }

    /// The place of a pod's group in [`Self::iter`].
    #[must_use]
    pub fn place_of(&self, pod: &Pod) -> usize {
        let priority = pod.spec.priority.unwrap_or(DEFAULT_PRIORITY);
        let first_above = self.0.partition_point(|period| period.priority < priority);
        match self.0.get(first_above) {
            Some(period) if period.priority == priority => first_above,
            Some(_) | None => first_above.saturating_sub(1),
        }
    }
}

impl Period {
    /// How long the group may take.
    #[must_use]
    pub fn time(self) -> Duration {
        Duration::from_secs(self.seconds.min(LONGEST_GRACE_SECONDS))
    }

    /// How a pod of the group is ended: in its own time, but not longer than the group has.
    #[must_use]
    pub fn ending_of(self, pod: &Pod) -> Ending {
        let own =
            pod.spec.termination_grace_period_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
        let grace = self.seconds.min(own.unwrap_or(self.seconds)).clamp(1, LONGEST_GRACE_SECONDS);
        let rejection = Rejection { reason: REASON.to_owned(), message: MESSAGE.to_owned() };
        Ending {
            order: KillOptions { grace_override: Some(grace), rejection: Some(rejection) },
            late_after: Duration::from_secs(grace + grace / 2).max(SHORTEST_WAIT),
        }
    }
}

/// How a pod is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The order to its worker.
    pub order: KillOptions,
    /// When it should have stopped.
    pub late_after: Duration,
}

/// The pods that end with a group: its own, and those of groups before it that were not there when those began.
/// `is_ordered` tells of pods that were ended already.
#[must_use]
pub fn due(
    periods: &Periods,
    place: usize,
    pods: &[Arc<Pod>],
    is_ordered: impl Fn(&Pod) -> bool,
) -> Vec<Arc<Pod>> {
    let mut due: Vec<Arc<Pod>> =
        pods.iter().filter(|pod| periods.place_of(pod) <= place && !is_ordered(pod)).cloned().collect();
    due.sort_by(|one, other| one.full_name.cmp(&other.full_name));
    due
}

/// Whether there is something of a pod to end.
#[must_use]
pub fn is_active(pod: &Pod, worker: Option<&WorkerView>) -> bool {
    match worker.map(|worker| worker.phase) {
        Some(WorkerPhase::Terminated | WorkerPhase::Finished) => false,
        Some(WorkerPhase::Terminating) => true,
        Some(WorkerPhase::Syncing) | None => !is_terminal(&pod.status),
    }
}

/// What is left of a pod that was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// Containers, perhaps.
    Running,
    /// Mounts, perhaps.
    Mounts,
    /// Nothing.
    Nothing,
}

/// What is left of a pod that was ended. One without a worker is either gone, or still wanted and its order has not come
/// through yet.
#[must_use]
pub fn remainder(wanted: Option<&Pod>, worker: Option<&WorkerView>) -> Remainder {
    match worker.map(|worker| worker.phase) {
        Some(WorkerPhase::Syncing | WorkerPhase::Terminating) => Remainder::Running,
        Some(WorkerPhase::Terminated) => Remainder::Mounts,
        Some(WorkerPhase::Finished) => Remainder::Nothing,
        None if wanted.is_some() => Remainder::Running,
        None => Remainder::Nothing,
    }
}

#[cfg(test)]
mod tests;
