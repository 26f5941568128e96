//! The devices that plugins report.

use std::collections::{BTreeMap, BTreeSet};

use model::PluginDevice;

use super::records::NO_NODE;

/// The devices of all resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    resources: BTreeMap<String, ResourceDevices>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ResourceDevices {
    /// As reported last. Kept after the plugin has stopped.
    reported: BTreeMap<String, PluginDevice>,
    /// Empty after the plugin has stopped.
    healthy: BTreeSet<String>,
}

/// Number of devices of a resource in the node status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCount {
    pub capacity: usize,
    /// Healthy devices.
    pub allocatable: usize,
}

impl Inventory {
    /// Adds a resource whose plugin has not registered yet.
    pub fn restore(&mut self, resource: &str) {
        self.resources.entry(resource.to_owned()).or_default();
    }

    /// Replaces all devices of a resource. Returns the devices whose health changed, and those that appeared.
    pub fn replace(&mut self, resource: &str, devices: Vec<PluginDevice>) -> BTreeSet<String> {
        let reported: BTreeMap<String, PluginDevice> =
            devices.into_iter().map(|device| (device.id.clone(), device)).collect();
        let healthy = reported.values().filter(|device| device.is_healthy());
        let healthy = healthy.map(|device| device.id.clone()).collect();
        let known = self.resources.entry(resource.to_owned()).or_default();
        let is_changed = |device: &&PluginDevice| {
            known.reported.get(&device.id).is_none_or(|before| before.health != device.health)
        };
        let changed = reported.values().filter(is_changed).map(|device| device.id.clone()).collect();
        *known = ResourceDevices { reported, healthy };
        changed
    }

    /// No device of a stopped plugin can be allocated. Their health stays as it was reported.
    pub fn disconnect(&mut self, resource: &str) {
        if let Some(known) = self.resources.get_mut(resource) {
            known.healthy.clear();
        }
    }

    pub fn remove(&mut self, resource: &str) {
        self.resources.remove(resource);
    }

    pub fn contains(&self, resource: &str) -> bool {
        self.resources.contains_key(resource)
    }

    /// Healthy devices; `None` when the resource is not registered.
    pub fn healthy(&self, resource: &str) -> Option<&BTreeSet<String>> {
        self.resources.get(resource).map(|known| &known.healthy)
    }

    /// The healthy devices of a resource; none after its plugin has stopped.
    pub fn healthy_devices(&self, resource: &str) -> impl Iterator<Item = &PluginDevice> {
        let running = self.resources.get(resource).filter(|known| !known.healthy.is_empty());
        let reported = running.into_iter().flat_map(|known| known.reported.values());
        reported.filter(|device| device.is_healthy())
    }

    /// All healthy devices with their resource.
    pub fn all_healthy(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.resources.iter().map(|(resource, known)| (resource.as_str(), &known.healthy))
    }

    /// A device as it was reported last.
    pub fn device(&self, resource: &str, id: &str) -> Option<&PluginDevice> {
        self.resources.get(resource)?.reported.get(id)
    }

    /// All devices of a resource.
    pub fn devices(&self, resource: &str) -> impl Iterator<Item = &PluginDevice> {
        self.resources.get(resource).into_iter().flat_map(|known| known.reported.values())
    }

    /// Whether any device of a resource names a NUMA node.
    pub fn has_topology(&self, resource: &str) -> bool {
        self.devices(resource).any(|device| !device.nodes.is_empty())
    }

    pub fn counts(&self) -> impl Iterator<Item = (&str, DeviceCount)> {
        self.resources.iter().map(|(resource, known)| {
            let count = DeviceCount { capacity: known.reported.len(), allocatable: known.healthy.len() };
            (resource.as_str(), count)
        })
    }

    /// Devices by NUMA node, as they are recorded.
    pub(super) fn by_node(&self, resource: &str, devices: &[String]) -> BTreeMap<i64, Vec<String>> {
        let mut by_node: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for id in devices {
            let nodes: &[i64] = match self.device(resource, id) {
                Some(device) if !device.nodes.is_empty() => &device.nodes,
                Some(_) | None => &[NO_NODE],
            };
            for node in nodes.iter().collect::<BTreeSet<_>>() {
                by_node.entry(*node).or_default().push(id.clone());
            }
        }
        by_node
    }
}
