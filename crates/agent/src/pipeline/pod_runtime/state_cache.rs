use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use decide::pipeline::backoff::BackoffEntry;
use model::{Moment, PodUid, SandboxId};
use tokio::time::Instant;

/// State of pods between syncs; removed when the pod has terminated.
#[derive(Debug, Default)]
pub(super) struct PodStateCache {
    pods: Mutex<HashMap<PodUid, Box<CachedPodState>>>,
}

#[derive(Debug, Default)]
pub(super) struct CachedPodState {
    pub(super) last_action: Moment,
    pub(super) crashes: HashMap<CrashKey, BackoffEntry>,
    pub(super) mount_failures: u32,
    /// Sandboxes that this agent has stopped, unlike those that died without it.
    pub(super) stopped_sandboxes: Vec<SandboxId>,
    /// Digest of the files that this agent last wrote into each volume, by volume name.
    pub(super) file_digests: HashMap<String, u64>,
    /// Block volumes for which the event was recorded.
    pub(super) mapped_devices: HashSet<String>,
    /// When the volumes of drivers were last refreshed.
    volumes_refreshed_at: Option<Instant>,
}

/// Identity of a container for its crash backoff: a new image or changed resources start a new backoff.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CrashKey {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) resources: String,
}

impl PodStateCache {
    /// Reads or changes the state of a pod.
    pub(super) fn with<T>(&self, uid: &PodUid, act: impl FnOnce(&mut CachedPodState) -> T) -> T {
        let mut pods = self.pods.lock();
        act(pods.entry(uid.clone()).or_default())
    }

    pub(super) fn record_crash(&self, uid: &PodUid, key: CrashKey, entry: BackoffEntry) {
        self.with(uid, |pod| {
            // One entry per container name: the entry of another image is not needed any more.
            pod.crashes.retain(|other, _| other.name != key.name);
            pod.crashes.insert(key, entry);
        });
    }

    /// Counts a failed volume setup; returns the number of failures in a row.
    pub(super) fn count_mount_failure(&self, uid: &PodUid) -> u32 {
        self.with(uid, |pod| {
            pod.mount_failures = pod.mount_failures.saturating_add(1);
            pod.mount_failures
        })
    }

    /// Returns whether the volumes of drivers are due for a refresh, and if so starts the next period.
    pub(super) fn take_volume_refresh(&self, uid: &PodUid, now: Instant, period: Duration) -> bool {
        self.with(uid, |pod| {
            let is_due =
                pod.volumes_refreshed_at.is_none_or(|last| now.saturating_duration_since(last) >= period);
            if is_due {
                pod.volumes_refreshed_at = Some(now);
            }
            is_due
        })
    }

    pub(super) fn remove(&self, uid: &PodUid) {
        self.pods.lock().remove(uid);
    }
}
