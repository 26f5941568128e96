//! Devices of plugins: which ones a container gets, and which ones the node offers.
//!
//! [`DeviceState`] is everything that is known: the devices of each resource and the recorded allocations. The agent's device
//! service changes it and makes the calls to the plugins.
//!
//! Invariants: two pods never own the same device; an allocation followed by its release restores the state.

pub mod checkpoint;
mod choice;
mod hints;
mod inventory;
mod names;
mod pod_status;
mod records;
mod requests;
mod reuse;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use model::{AllocatedDevices, NumaMask, PluginDevice, Pod, PodUid};

pub use choice::{DeviceChoice, DeviceChoiceError};
pub use inventory::{DeviceCount, Inventory};
pub use names::is_device_resource;
pub use records::{DeviceRecord, DeviceRecords, NO_NODE, RecordKey};
pub use requests::{container_request, known_requests};

use crate::pipeline::pod_actions::is_sidecar;
use reuse::ReusableDevices;

/// The devices of the node and their owners.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceState {
    pub inventory: Inventory,
    pub records: DeviceRecords,
    reusable: ReusableDevices,
}

/// Devices that one container requests of one resource.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest<'a> {
    pub uid: &'a PodUid,
    pub container: &'a str,
    pub resource: &'a str,
    pub count: usize,
}

impl DeviceState {
    /// Whether a resource belongs to a device plugin.
    pub fn manages(&self, resource: &str) -> bool {
        self.inventory.contains(resource) || self.records.has_resource(resource)
    }

    /// Chooses the devices of a container; `None` when nothing must be allocated.
    ///
    /// # Errors
    /// When the container cannot get its devices.
    pub fn choose(
        &self,
        request: &DeviceRequest<'_>,
        mask: Option<NumaMask>,
    ) -> Result<Option<DeviceChoice>, DeviceChoiceError> {
        choice::choose(self, request, mask)
    }

    /// Records the devices that a plugin has allocated.
    pub fn record(&mut self, request: &DeviceRequest<'_>, devices: &[String], answer: AllocatedDevices) {
        let ids = self.inventory.by_node(request.resource, devices);
        let key = RecordKey {
            uid: request.uid.clone(),
            container: request.container.to_owned(),
            resource: request.resource.to_owned(),
        };
        self.records.insert(key, DeviceRecord { ids, answer });
    }

    /// Updates which devices later containers of the pod can reuse: those of ordinary init containers, which have ended by
    /// then.
    pub fn finish_container(&mut self, pod: &Pod, container: &str) {
        self.reusable.start_pod(&pod.uid);
        let is_ordinary_init =
            pod.spec.init_containers.iter().flatten().any(|init| init.name == container && !is_sidecar(init));
        for (resource, devices) in self.records.of_container(&pod.uid, container) {
            if is_ordinary_init {
                self.reusable.add(resource, devices);
            } else {
                self.reusable.remove(resource, &devices);
            }
        }
    }

    /// Forgets the devices that containers of other pods could reuse.
    pub fn start_pod(&mut self, uid: &PodUid) {
        self.reusable.start_pod(uid);
    }

    /// Releases the devices of all containers for which `keep` returns false. Returns whether there were any.
    pub fn retain(&mut self, keep: impl Fn(&PodUid, &str) -> bool) -> bool {
        let released = self.records.retain(keep);
        released.iter().for_each(|uid| self.reusable.end_pod(uid));
        !released.is_empty()
    }

    /// Devices of the pod's ended init containers.
    pub(crate) fn reusable(&self, uid: &PodUid, resource: &str) -> BTreeSet<String> {
        self.reusable.of(uid, resource)
    }

    /// The healthy devices without an owner, in the order of their ids. Both lists are read side by side, because they may name
    /// thousands of devices.
    pub(crate) fn available(&self, resource: &str) -> Vec<&PluginDevice> {
        let mut used = self.records.used(resource).peekable();
        let is_free = |device: &&PluginDevice| {
            while used.next_if(|id| *id < device.id.as_str()).is_some() {}
            used.peek() != Some(&device.id.as_str())
        };
        self.inventory.healthy_devices(resource).filter(is_free).collect()
    }
}
