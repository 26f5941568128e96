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
    staged: HashSet<Key>,
    published: HashSet<(PodUid, String)>,
    attached: HashMap<Key, BTreeMap<String, String>>,
    /// Sizes of volumes on this node, and sizes that drivers rejected.
    sizes: HashMap<Key, i64>,
    refused: HashMap<Key, i64>,
    left_alone: HashMap<Key, i64>,
    in_use: BTreeSet<String>,
    /// Set when records of an earlier run cannot be read, so that volumes in use may be missing.
    unsure: bool,
    /// SELinux labels of volumes.
    pub(super) labels: Labels,
    /// Pods by volume that a controller attaches, by the name in the node's status.
    attached_by: HashMap<String, HashSet<PodUid>>,
}

impl VolumeStates {
    pub(super) fn in_use(&self) -> Vec<String> {
        self.in_use.iter().cloned().collect()
    }

    pub(super) fn uses(&mut self, record: &VolumeRecord) {
        if record.lifecycle == CsiLifecycle::Persistent {
            self.in_use.insert(volume_in_use(&record.driver, &record.handle));
        }
    }

    /// Whether unknown volumes may be in use.
    pub(super) fn may_miss_volumes(&self) -> bool {
        self.unsure
    }

    pub(super) fn set_missing_records(&mut self) {
        self.unsure = true;
    }

    /// Adds the volumes in use that an earlier run reported.
    pub(super) fn keep_in_use<'a>(&mut self, names: impl Iterator<Item = &'a String>) {
        self.in_use.extend(names.cloned());
        self.unsure = false;
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

    pub(super) fn attached(&self, key: &Key) -> Option<BTreeMap<String, String>> {
        self.attached.get(key).cloned()
    }

    pub(super) fn has_attached(&mut self, key: &Key, context: &BTreeMap<String, String>) {
        self.attached.insert(key.clone(), context.clone());
    }

    pub(super) fn is_staged(&self, key: &Key) -> bool {
        self.staged.contains(key)
    }

    pub(super) fn has_staged(&mut self, key: &Key) {
        self.staged.insert(key.clone());
    }

    pub(super) fn unstaged(&mut self, key: &Key) {
        self.staged.remove(key);
    }

    pub(super) fn is_published(&self, uid: &PodUid, name: &str) -> bool {
        self.published.contains(&(uid.clone(), name.to_owned()))
    }

    /// Returns whether it was not published before.
    pub(super) fn has_published(&mut self, uid: &PodUid, name: &str) -> bool {
        self.published.insert((uid.clone(), name.to_owned()))
    }

    /// The known size of a volume on this node.
    pub(super) fn size(&self, key: &Key) -> Option<i64> {
        self.sizes.get(key).copied()
    }

    pub(super) fn has_size(&mut self, key: &Key, size: i64) {
        self.sizes.insert(key.clone(), size);
    }

    /// Whether the driver rejected this size.
    pub(super) fn is_rejected(&self, key: &Key, size: i64) -> bool {
        self.refused.get(key) == Some(&size)
    }

    /// Whether the driver does not support this size while the volume is in use.
    pub(super) fn is_deferred(&self, key: &Key, size: i64) -> bool {
        self.left_alone.get(key) == Some(&size)
    }

    pub(super) fn defer(&mut self, key: &Key, size: i64) {
        self.left_alone.insert(key.clone(), size);
    }

    pub(super) fn set_rejected(&mut self, key: &Key, size: i64) {
        self.refused.insert(key.clone(), size);
    }

    pub(super) fn unpublished(&mut self, uid: &PodUid, name: &str) {
        self.published.remove(&(uid.clone(), name.to_owned()));
    }

    /// Drops a volume that no pod of this node uses.
    pub(super) fn gone(&mut self, key: &Key) {
        self.staged.remove(key);
        self.attached.remove(key);
        self.sizes.remove(key);
        self.refused.remove(key);
        self.left_alone.remove(key);
        self.in_use.remove(&volume_in_use(&key.driver, &key.handle));
    }
}
