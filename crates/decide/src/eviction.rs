//! When the node runs short: what is seen of it, what is reclaimed, and which pods have to go.
//!
//! One look at the node makes [`Observations`]; [`Watch::step`] holds them to the thresholds and tells what runs short and
//! what must be acted on. What the node itself can give up comes first ([`reclaims`]), then one pod, the first in the order
//! of [`rank`]. Limits of local storage ([`broken_limit`]) need no pressure.

mod limits;
mod message;
mod observations;
mod ranking;
mod reclaim;
mod signals;
#[cfg(test)]
mod tests;
mod thresholds;
mod watch;

use std::time::Duration;

use model::{Pod, WorkerPhase, WorkerView};

use crate::resources::is_critical;
use crate::status_report::is_terminal;

pub use limits::{BrokenLimit, LimitReadings, broken_limit, limit_readings};
pub(crate) use message::NODE_LOW;
pub use message::{EvictionNote, eviction_note};
pub use observations::{DiskSight, NodeSight, Observations, Observed, observe};
pub use ranking::{PodUse, rank};
pub use reclaim::{DiskLayout, Reclaim, layout, reclaims};
pub use signals::{Signal, Starved};
pub use thresholds::{Configured, Threshold, Value, thresholds, with_container_disk};
pub use watch::{MinimumReclaim, Step, Watch, met};

/// The word for a pod that had to go.
pub const EVICTED: &str = "Evicted";

/// Grace of a pod that must go at once.
pub const IMMEDIATE_GRACE_SECONDS: u64 = 1;

/// What is configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// When the node is short of something.
    pub thresholds: Vec<Threshold>,
    /// How long a condition stays after its cause (`evictionPressureTransitionPeriod`).
    pub transition: Duration,
    /// Longest grace of a pod that goes for a soft threshold (`evictionMaxPodGracePeriod`).
    pub max_pod_grace_seconds: u64,
    /// Whether limits of local storage are enforced (`localStorageCapacityIsolation`).
    pub local_storage: bool,
    /// Whether a disk of containers apart from that of images is looked at (`KubeletSeparateDiskGC`).
    pub split_disks: bool,
    /// Whether the kernel is asked to tell when memory runs short (`kernelMemcgNotification`).
    pub kernel_notification: bool,
}

/// Whether a pod may be chosen: it is not over, and was not told to go already.
#[must_use]
pub fn may_go(pod: &Pod, worker: Option<&WorkerView>) -> bool {
    let Some(worker) = worker else { return !is_terminal(&pod.status) && !is_critical(pod) };
    let was_told = worker.rejection.as_ref().is_some_and(|rejection| rejection.reason == EVICTED);
    worker.phase < WorkerPhase::Terminated && !was_told && !is_critical(pod)
}

/// How long a pod has to end for a threshold.
#[must_use]
pub fn grace_seconds(threshold: &Threshold, pod: &Pod, settings: &Settings) -> u64 {
    if threshold.is_hard() {
        return IMMEDIATE_GRACE_SECONDS;
    }
    let own = pod.spec.termination_grace_period_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
    settings.max_pod_grace_seconds.min(own.unwrap_or(u64::MAX))
}

/// The thresholds to act on, the most urgent first: memory can run out within seconds.
#[must_use]
pub fn by_urgency(mut met: Vec<Threshold>) -> Vec<Threshold> {
    met.sort_by_key(|threshold| threshold.signal.starved() != Starved::Memory);
    met
}
