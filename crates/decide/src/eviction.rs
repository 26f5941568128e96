//! Node-pressure eviction: observing signals, reclaiming, and selecting pods to evict.
//!
//! The readings of a node become [`SignalObservations`]. [`ThresholdTracker::update`] compares them with the thresholds and
//! returns the node's pressure and the thresholds to act on. The node first reclaims what no pod uses
//! ([`reclaim_actions`]), then evicts one pod, the first in the order of [`rank`]. Limits of local storage
//! ([`exceeded_limit`]) are enforced without pressure too.

mod limits;
mod message;
mod observations;
mod ranking;
mod reclaim;
mod signals;
#[cfg(test)]
mod tests;
mod threshold_tracker;
mod thresholds;

use std::time::Duration;

use model::{Pod, WorkerPhase, WorkerView};

use crate::pod_resources::critical_pods::is_critical;
use crate::status::status_report::is_terminal;

pub use limits::{ExceededLimit, RequiredMeasurements, exceeded_limit, required_measurements};
pub use message::{EvictionNote, eviction_note};
pub use observations::{DiskReadings, NodeReadings, SignalObservation, SignalObservations, observe_signals};
pub use ranking::{PodUsage, rank};
pub use reclaim::{DiskLayout, ReclaimAction, disk_layout, reclaim_actions};
pub use signals::{Signal, StarvedResource};
pub use threshold_tracker::{MinimumReclaim, PressureUpdate, ThresholdTracker, met_thresholds};
pub use thresholds::{Threshold, ThresholdConfig, ThresholdValue, thresholds, with_container_filesystem};

/// Reason in the status and events of an evicted pod.
pub const EVICTED: &str = "Evicted";

/// Grace period for hard thresholds and exceeded limits.
pub const IMMEDIATE_GRACE_SECONDS: u64 = 1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionSettings {
    pub thresholds: Vec<Threshold>,
    /// How long a pressure condition stays true after the last met threshold (`evictionPressureTransitionPeriod`).
    pub transition: Duration,
    /// Upper bound for the grace period at soft thresholds (`evictionMaxPodGracePeriod`).
    pub max_pod_grace_seconds: u64,
    /// Whether limits of local storage are enforced (`localStorageCapacityIsolation`).
    pub local_storage: bool,
    /// Whether a separate filesystem for containers is observed (`KubeletSeparateDiskGC`).
    pub split_disks: bool,
    /// Whether the kernel notifies the agent of low memory (`kernelMemcgNotification`).
    pub kernel_notification: bool,
}

/// Whether a pod may be evicted: it is not critical, has not finished and is not being evicted already.
pub fn is_evictable(pod: &Pod, worker: Option<&WorkerView>) -> bool {
    let Some(worker) = worker else { return !is_terminal(&pod.status) && !is_critical(pod) };
    let is_evicted = worker.rejection.as_ref().is_some_and(|rejection| rejection.reason == EVICTED);
    worker.phase < WorkerPhase::Terminated && !is_evicted && !is_critical(pod)
}

/// The grace period of a pod that is evicted for a threshold.
pub fn grace_seconds(threshold: &Threshold, pod: &Pod, settings: &EvictionSettings) -> u64 {
    if threshold.is_hard() {
        return IMMEDIATE_GRACE_SECONDS;
    }
    let own = pod.spec.termination_grace_period_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0));
    settings.max_pod_grace_seconds.min(own.unwrap_or(u64::MAX))
}

/// Sorts thresholds by urgency: memory first, because it can run out within seconds.
#[must_use]
pub fn sort_by_urgency(mut met: Vec<Threshold>) -> Vec<Threshold> {
    met.sort_by_key(|threshold| threshold.signal.starved_resource() != StarvedResource::Memory);
    met
}
