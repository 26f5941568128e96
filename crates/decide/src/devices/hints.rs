//! Topology hints of devices.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Container;
use model::{NumaMask, PluginDevice, Pod, ProviderHints, ResourceHints, TopologyHint};

use super::DeviceState;
use super::choice::touches;
use super::requests::{known_requests, pod_requests};

/// More NUMA nodes than any machine has; bounds the number of masks whatever plugins report.
const MAX_NODES: usize = 16;

impl DeviceState {
    /// Hints for the devices of one container. `machine` are the NUMA nodes of the machine.
    pub fn container_hints(&self, pod: &Pod, container: &Container, machine: NumaMask) -> ProviderHints {
        let requests = known_requests(self, pod, container).into_iter();
        let hints = requests.map(|(resource, count)| {
            let own = self.records.get(&pod.uid, &container.name, &resource);
            let own = own.map(super::DeviceRecord::devices).unwrap_or_default();
            let hints = self.hints(pod, &resource, count, &own, machine);
            (resource, hints)
        });
        hints.collect()
    }

    /// Hints for the devices of all containers of a pod together.
    pub fn pod_hints(&self, pod: &Pod, machine: NumaMask) -> ProviderHints {
        let requests = pod_requests(self, pod).into_iter();
        let hints = requests.map(|(resource, count)| {
            let records = self.records.of_pod(&pod.uid).filter(|(key, _)| key.resource == resource);
            let own = records.flat_map(|(_, record)| record.devices()).collect();
            let hints = self.hints(pod, &resource, count, &own, machine);
            (resource, hints)
        });
        hints.collect()
    }

    fn hints(
        &self,
        pod: &Pod,
        resource: &str,
        count: usize,
        own: &BTreeSet<String>,
        machine: NumaMask,
    ) -> ResourceHints {
        if !self.inventory.has_topology(resource) {
            return ResourceHints::NoPreference;
        }
        let devices = |ids: &BTreeSet<String>| -> Vec<&PluginDevice> {
            ids.iter().filter_map(|id| self.inventory.device(resource, id)).collect()
        };
        if !own.is_empty() {
            return match own.len() == count {
                true => self.hints_from(resource, count, (&devices(own), &[]), machine),
                false => ResourceHints::OneOf(Vec::new()),
            };
        }
        let mut usable = self.available(resource);
        let mut reusable = self.reusable(&pod.uid, resource);
        let reused = devices(&reusable);
        reusable.retain(|id| usable.binary_search_by(|free| free.id.cmp(id)).is_err());
        if usable.len() + reusable.len() < count {
            return ResourceHints::OneOf(Vec::new());
        }
        usable.extend(devices(&reusable));
        self.hints_from(resource, count, (&usable, &reused), machine)
    }

    fn hints_from(
        &self,
        resource: &str,
        count: usize,
        (usable, reused): (&[&PluginDevice], &[&PluginDevice]),
        machine: NumaMask,
    ) -> ResourceHints {
        // Thousands of devices are near a few sets of nodes, and eight nodes have 255 masks.
        let all = count_by_nodes(self.inventory.devices(resource));
        let usable = count_by_nodes(usable.iter().copied());
        let reused = count_by_nodes(reused.iter().copied());
        let near = |counts: &BTreeMap<&[i64], usize>, mask: NumaMask| -> usize {
            counts.iter().filter(|(nodes, _)| touches(mask, nodes)).map(|(_, count)| count).sum()
        };
        let (mut smallest, mut fitting) = (machine.count(), Vec::new());
        for mask in masks(candidate_nodes(&all, machine)) {
            if mask.count() < smallest && near(&all, mask) >= count {
                smallest = mask.count();
            }
            // Every reusable device must be near the mask, because reusable devices are handed out first.
            if reused.keys().all(|nodes| touches(mask, nodes)) && near(&usable, mask) >= count {
                fitting.push(mask);
            }
        }
        let hint = |mask: NumaMask| TopologyHint { nodes: Some(mask), preferred: mask.count() == smallest };
        ResourceHints::OneOf(fitting.into_iter().map(hint).collect())
    }
}

/// Devices without nodes are left out.
fn count_by_nodes<'a>(devices: impl Iterator<Item = &'a PluginDevice>) -> BTreeMap<&'a [i64], usize> {
    let mut counts = BTreeMap::new();
    for device in devices.filter(|device| !device.nodes.is_empty()) {
        *counts.entry(device.nodes.as_slice()).or_default() += 1;
    }
    counts
}

/// NUMA nodes of the machine that carry devices of the resource; all nodes if there are none.
fn candidate_nodes(devices: &BTreeMap<&[i64], usize>, machine: NumaMask) -> Vec<i32> {
    let carries = |node: &i32| devices.keys().any(|nodes| nodes.contains(&i64::from(*node)));
    let mut nodes: Vec<i32> = machine.nodes().filter(carries).collect();
    if nodes.is_empty() {
        nodes = machine.nodes().collect();
    }
    nodes.truncate(MAX_NODES);
    nodes
}

/// All masks of the nodes, small ones first.
fn masks(nodes: Vec<i32>) -> impl Iterator<Item = NumaMask> {
    let count = u32::try_from(nodes.len()).unwrap_or_default();
    let mut choices: Vec<u32> = (1..1_u32 << count).collect();
    // Among masks of the same size, the one with the lower first node comes first.
    choices.sort_by_key(|bits| (bits.count_ones(), std::cmp::Reverse(bits.reverse_bits())));
    choices.into_iter().map(move |bits| {
        let members = nodes.iter().enumerate().filter(|(index, _)| bits & (1 << index) != 0);
        NumaMask::of(members.map(|(_, node)| *node))
    })
}
