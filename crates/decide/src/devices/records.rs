//! Recorded allocations: which container owns which devices.

use std::collections::{BTreeMap, BTreeSet};

use model::{AllocatedDevices, DeviceOptions, PodUid};

/// The key of devices without a NUMA node.
pub const NO_NODE: i64 = -1;

/// The owner of devices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKey {
    pub uid: PodUid,
    pub container: String,
    pub resource: String,
}

/// Devices of one resource that one container owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRecord {
    /// Devices by NUMA node. A device that is close to two nodes is listed under both.
    pub ids: BTreeMap<i64, Vec<String>>,
    pub answer: AllocatedDevices,
}

impl DeviceRecord {
    pub fn devices(&self) -> BTreeSet<String> {
        self.ids.values().flatten().cloned().collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceRecords {
    records: BTreeMap<RecordKey, DeviceRecord>,
    /// Number of records that own a device, by resource. Kept so that an admission does not read the records of all pods.
    owners: BTreeMap<String, BTreeMap<String, usize>>,
}

impl DeviceRecords {
    pub fn insert(&mut self, key: RecordKey, record: DeviceRecord) {
        self.remove(&key);
        let owners = self.owners.entry(key.resource.clone()).or_default();
        for device in record.devices() {
            *owners.entry(device).or_default() += 1;
        }
        self.records.insert(key, record);
    }

    fn remove(&mut self, key: &RecordKey) {
        let Some(record) = self.records.remove(key) else { return };
        let Some(owners) = self.owners.get_mut(&key.resource) else { return };
        for device in record.devices() {
            if let Some(count) = owners.get_mut(&device) {
                *count = count.saturating_sub(1);
            }
        }
        owners.retain(|_, count| *count > 0);
        if owners.is_empty() {
            self.owners.remove(&key.resource);
        }
    }

    /// Returns the pods of the removed records.
    pub(super) fn retain(&mut self, keep: impl Fn(&PodUid, &str) -> bool) -> BTreeSet<PodUid> {
        let is_removed = |key: &&RecordKey| !keep(&key.uid, &key.container);
        let removed: Vec<RecordKey> = self.records.keys().filter(is_removed).cloned().collect();
        removed.iter().for_each(|key| self.remove(key));
        removed.into_iter().map(|key| key.uid).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&RecordKey, &DeviceRecord)> {
        self.records.iter()
    }

    pub fn get(&self, uid: &PodUid, container: &str, resource: &str) -> Option<&DeviceRecord> {
        let (container, resource) = (container.to_owned(), resource.to_owned());
        self.records.get(&RecordKey { uid: uid.clone(), container, resource })
    }

    pub fn has_resource(&self, resource: &str) -> bool {
        self.owners.contains_key(resource)
    }

    /// Resources and devices of a container.
    pub fn of_container<'a>(
        &'a self,
        uid: &PodUid,
        container: &'a str,
    ) -> impl Iterator<Item = (&'a str, BTreeSet<String>)> {
        let records = self.of_pod(uid).filter(move |(key, _)| key.container == container);
        records.map(|(key, record)| (key.resource.as_str(), record.devices()))
    }

    /// Records of a pod, ordered by container and resource.
    pub fn of_pod<'a>(&'a self, uid: &PodUid) -> impl Iterator<Item = (&'a RecordKey, &'a DeviceRecord)> {
        let first = RecordKey { uid: uid.clone(), container: String::new(), resource: String::new() };
        let uid = uid.clone();
        self.records.range(first..).take_while(move |(key, _)| key.uid == uid)
    }

    /// The options that plugins add to a container. Resources are merged in the order of their names.
    pub fn options(&self, uid: &PodUid, container: &str) -> DeviceOptions {
        let mut merged = DeviceOptions::default();
        for (key, record) in self.of_pod(uid) {
            if key.container == container {
                merged.merge(&record.answer.options);
            }
        }
        merged
    }

    /// Devices with an owner, in the order of their ids.
    pub fn used(&self, resource: &str) -> impl Iterator<Item = &str> {
        self.owners.get(resource).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// Number of devices with an owner, by resource.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.owners.iter().map(|(resource, owners)| (resource.as_str(), owners.len()))
    }

    /// Pods that own one of the devices. As upstream, a device is searched by its id alone.
    pub fn owners(&self, devices: &BTreeSet<String>) -> BTreeSet<PodUid> {
        if devices.is_empty() {
            return BTreeSet::new();
        }
        let owns = |record: &DeviceRecord| record.ids.values().flatten().any(|id| devices.contains(id));
        self.records.iter().filter(|(_, record)| owns(record)).map(|(key, _)| key.uid.clone()).collect()
    }
}
