//! State of volumes on this node, to avoid repeated calls.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use decide::volumes::csi::volume_in_use;
use model::{CsiLifecycle, PodUid};
use ports::host::csi_folders::VolumeRecord;

use super::Key;
use super::labels::Labels;

/// Not needed after a restart, because CSI calls are idempotent.
#[derive(Debug, Default)]
pub(super) struct VolumeStates {
    pub(super) staged: HashSet<Key>,
    /// Pods with the names of their volumes.
    pub(super) published: HashSet<(PodUid, String)>,
    /// Publish contexts of attached volumes.
    pub(super) attached: HashMap<Key, BTreeMap<String, String>>,
    /// Sizes of volumes on this node.
    pub(super) sizes: HashMap<Key, i64>,
    /// Sizes that drivers rejected.
    pub(super) rejected: HashMap<Key, i64>,
    /// Sizes that drivers do not support while the volume is in use.
    pub(super) deferred: HashMap<Key, i64>,
    pub(super) in_use: BTreeSet<String>,
    /// Set when records of an earlier run cannot be read, so that volumes in use may be missing.
    pub(super) may_miss_volumes: bool,
    /// SELinux labels of volumes.
    pub(super) labels: Labels,
    /// Pods by volume that a controller attaches, by the name in the node's status.
    attached_by: HashMap<String, HashSet<PodUid>>,
}

impl VolumeStates {
    pub(super) fn uses(&mut self, record: &VolumeRecord) {
        if record.lifecycle == CsiLifecycle::Persistent {
            self.in_use.insert(volume_in_use(&record.driver, &record.handle));
        }
    }

    /// Adds the volumes in use that an earlier run reported.
    pub(super) fn keep_in_use<'a>(&mut self, names: impl Iterator<Item = &'a String>) {
        self.in_use.extend(names.cloned());
        self.may_miss_volumes = false;
    }

    pub(super) fn uses_attached(&mut self, uid: &PodUid, name: &str) {
        self.attached_by.entry(name.to_owned()).or_default().insert(uid.clone());
        self.in_use.insert(name.to_owned());
    }

    pub(super) fn remove_attached(&mut self, uid: &PodUid) {
        for (name, users) in &mut self.attached_by {
            if users.remove(uid) && users.is_empty() {
                self.in_use.remove(name);
            }
        }
        self.attached_by.retain(|_, users| !users.is_empty());
    }

    pub(super) fn has_size(&mut self, key: &Key, size: i64) {
        self.sizes.insert(key.clone(), size);
    }

    /// Drops a volume that no pod of this node uses.
    pub(super) fn gone(&mut self, key: &Key) {
        self.staged.remove(key);
        self.attached.remove(key);
        self.sizes.remove(key);
        self.rejected.remove(key);
        self.deferred.remove(key);
        self.in_use.remove(&volume_in_use(&key.driver, &key.handle));
    }
}
