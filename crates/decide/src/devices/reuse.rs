//! Devices of ended init containers, which later containers of the same pod can use.

use std::collections::{BTreeMap, BTreeSet};

use model::PodUid;

/// Only for the pod whose containers were handled last, as upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReusableDevices {
    pod: Option<PodUid>,
    by_resource: BTreeMap<String, BTreeSet<String>>,
}

impl ReusableDevices {
    pub(super) fn start_pod(&mut self, uid: &PodUid) {
        if self.pod.as_ref() != Some(uid) {
            *self = Self { pod: Some(uid.clone()), by_resource: BTreeMap::new() };
        }
    }

    pub(super) fn add(&mut self, resource: &str, devices: BTreeSet<String>) {
        self.by_resource.entry(resource.to_owned()).or_default().extend(devices);
    }

    pub(super) fn remove(&mut self, resource: &str, devices: &BTreeSet<String>) {
        if let Some(known) = self.by_resource.get_mut(resource) {
            known.retain(|device| !devices.contains(device));
        }
    }

    pub(super) fn of(&self, uid: &PodUid, resource: &str) -> BTreeSet<String> {
        let is_own = self.pod.as_ref() == Some(uid);
        self.by_resource.get(resource).filter(|_| is_own).cloned().unwrap_or_default()
    }

    pub(super) fn end_pod(&mut self, uid: &PodUid) {
        if self.pod.as_ref() == Some(uid) {
            *self = Self::default();
        }
    }
}
