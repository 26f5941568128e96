use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use decide::backoff::Entry;
use model::{Moment, PodUid, SandboxId};
use tokio::time::Instant;

/// What is remembered between the passes over a pod; freed when the pod is over.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pods: Mutex<HashMap<PodUid, Box<PodMemory>>>,
}

#[derive(Debug, Default)]
struct PodMemory {
    last_action: Moment,
    crashes: HashMap<CrashKey, Entry>,
    mount_failures: u32,
    /// Sandboxes that were stopped and not merely found dead.
    stopped: Vec<SandboxId>,
    /// What was written into volumes last, by volume name, as a number that changes with the files.
    files: HashMap<String, u64>,
    /// Devices that users were told of.
    mapped: HashSet<String>,
    /// When volumes of drivers were looked at last.
    looked_at_volumes: Option<Instant>,
}

/// A container as far as its crashes count together: a new image or other resources begin anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CrashKey {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) resources: String,
}

impl Memory {
    pub(super) fn last_action(&self, uid: &PodUid) -> Moment {
        self.with(uid, |pod| pod.last_action)
    }

    pub(super) fn acted(&self, uid: &PodUid, moment: Moment) {
        self.with(uid, |pod| pod.last_action = moment);
    }

    pub(super) fn crash(&self, uid: &PodUid, key: &CrashKey) -> Option<Entry> {
        self.with(uid, |pod| pod.crashes.get(key).copied())
    }

    pub(super) fn crashed(&self, uid: &PodUid, key: CrashKey, entry: Entry) {
        self.with(uid, |pod| {
            // One entry per container name is enough: an older image does not come back into its back-off.
            pod.crashes.retain(|other, _| other.name != key.name);
            pod.crashes.insert(key, entry);
        });
    }

    /// Sandboxes that this agent has stopped.
    pub(super) fn stopped_sandboxes(&self, uid: &PodUid) -> Vec<SandboxId> {
        self.with(uid, |pod| pod.stopped.clone())
    }

    /// Notes the sandboxes that are stopped by now, of all the pod has.
    pub(super) fn stopped(&self, uid: &PodUid, sandboxes: Vec<SandboxId>) {
        self.with(uid, |pod| pod.stopped = sandboxes);
    }

    /// Counts a failed set-up of volumes; says how many there were in a row.
    pub(super) fn mount_failed(&self, uid: &PodUid) -> u32 {
        self.with(uid, |pod| {
            pod.mount_failures = pod.mount_failures.saturating_add(1);
            pod.mount_failures
        })
    }

    /// Ends a row of failed set-ups.
    pub(super) fn mounted(&self, uid: &PodUid) {
        self.with(uid, |pod| pod.mount_failures = 0);
    }

    /// Whether a volume has these files since this agent wrote them.
    pub(super) fn has_files(&self, uid: &PodUid, volume: &str, digest: u64) -> bool {
        self.with(uid, |pod| pod.files.get(volume) == Some(&digest))
    }

    pub(super) fn wrote_files(&self, uid: &PodUid, volume: &str, digest: u64) {
        self.with(uid, |pod| pod.files.insert(volume.to_owned(), digest));
    }

    /// Whether a device was not told of; counts as telling.
    pub(super) fn first_mapped(&self, uid: &PodUid, volume: &str) -> bool {
        self.with(uid, |pod| pod.mapped.insert(volume.to_owned()))
    }

    /// Whether volumes of drivers are to be looked at; counts as a look.
    pub(super) fn volumes_are_due(&self, uid: &PodUid, now: Instant, every: Duration) -> bool {
        self.with(uid, |pod| {
            let is_due =
                pod.looked_at_volumes.is_none_or(|last| now.saturating_duration_since(last) >= every);
            if is_due {
                pod.looked_at_volumes = Some(now);
            }
            is_due
        })
    }

    pub(super) fn forget(&self, uid: &PodUid) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn with<T>(&self, uid: &PodUid, act: impl FnOnce(&mut PodMemory) -> T) -> T {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        act(pods.entry(uid.clone()).or_default())
    }
}
