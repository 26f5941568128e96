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
struct CachedPodState {
    last_action: Moment,
    crashes: HashMap<CrashKey, BackoffEntry>,
    mount_failures: u32,
    /// Sandboxes that this agent has stopped, unlike those that died without it.
    stopped_sandboxes: Vec<SandboxId>,
    /// Digest of the files that were last written into each volume, by volume name.
    file_digests: HashMap<String, u64>,
    /// Block volumes for which the event was recorded.
    mapped_devices: HashSet<String>,
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
    pub(super) fn last_action(&self, uid: &PodUid) -> Moment {
        self.with(uid, |pod| pod.last_action)
    }

    pub(super) fn record_action(&self, uid: &PodUid, moment: Moment) {
        self.with(uid, |pod| pod.last_action = moment);
    }

    pub(super) fn crash_entry(&self, uid: &PodUid, key: &CrashKey) -> Option<BackoffEntry> {
        self.with(uid, |pod| pod.crashes.get(key).copied())
    }

    pub(super) fn record_crash(&self, uid: &PodUid, key: CrashKey, entry: BackoffEntry) {
        self.with(uid, |pod| {
            // One entry per container name: the entry of another image is not needed any more.
            pod.crashes.retain(|other, _| other.name != key.name);
            pod.crashes.insert(key, entry);
        });
    }

    pub(super) fn stopped_sandboxes(&self, uid: &PodUid) -> Vec<SandboxId> {
        self.with(uid, |pod| pod.stopped_sandboxes.clone())
    }

    /// Replaces the set of stopped sandboxes.
    pub(super) fn set_stopped_sandboxes(&self, uid: &PodUid, sandboxes: Vec<SandboxId>) {
        self.with(uid, |pod| pod.stopped_sandboxes = sandboxes);
    }

    /// Counts a failed volume setup; returns the number of failures in a row.
    pub(super) fn count_mount_failure(&self, uid: &PodUid) -> u32 {
        self.with(uid, |pod| {
            pod.mount_failures = pod.mount_failures.saturating_add(1);
            pod.mount_failures
        })
    }

    pub(super) fn reset_mount_failures(&self, uid: &PodUid) {
        self.with(uid, |pod| pod.mount_failures = 0);
    }

    /// Whether this agent has already written files with this digest into the volume.
    pub(super) fn has_files(&self, uid: &PodUid, volume: &str, digest: u64) -> bool {
        self.with(uid, |pod| pod.file_digests.get(volume) == Some(&digest))
    }

    pub(super) fn record_files(&self, uid: &PodUid, volume: &str, digest: u64) {
        self.with(uid, |pod| pod.file_digests.insert(volume.to_owned(), digest));
    }

    /// Marks the event of a block volume as recorded; returns whether it was not before.
    pub(super) fn mark_mapped(&self, uid: &PodUid, volume: &str) -> bool {
        self.with(uid, |pod| pod.mapped_devices.insert(volume.to_owned()))
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

    fn with<T>(&self, uid: &PodUid, act: impl FnOnce(&mut CachedPodState) -> T) -> T {
        let mut pods = self.pods.lock();
        act(pods.entry(uid.clone()).or_default())
    }
}
