//! Capacity and allocatable resources of the Node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeStatus;
use model::NodeResources;

use super::amounts::put;
use crate::cgroups::allocatable::allocatable;
use crate::devices::DeviceCount;

/// Sets the resources of the machine and of device plugins. Resources of other writers keep their capacity and are fully
/// allocatable.
pub(super) fn set(
    status: &mut NodeStatus,
    resources: &NodeResources,
    devices: &BTreeMap<String, DeviceCount>,
) {
    let amount = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let capacity = status.capacity.get_or_insert_default();
    // PIDs are limited but cannot be requested.
    for (name, amount) in resources.capacity.iter().filter(|(name, _)| name.as_str() != "pid") {
        put(capacity, name, *amount);
    }
    for (name, count) in devices {
        put(capacity, name, amount(count.capacity));
    }
    let node_allocatable = status.allocatable.get_or_insert_default();
    node_allocatable.retain(|name, _| capacity.contains_key(name) || !is_extended(name));
    let own = allocatable(resources);
    for (name, amount) in &own {
        put(node_allocatable, name, *amount);
    }
    for (name, amount) in capacity.iter().filter(|(name, _)| !own.contains_key(*name)) {
        node_allocatable.insert(name.clone(), amount.clone());
    }
    for (name, count) in devices {
        put(node_allocatable, name, amount(count.allocatable));
    }
}

/// Removes huge page sizes that the kernel no longer has.
pub(super) fn remove_missing_huge_pages(status: &mut NodeStatus, resources: &NodeResources) {
    let is_missing = |name: &String| {
        name.starts_with(HUGE_PAGES_PREFIX) && !resources.capacity.contains_key(name.as_str())
    };
    for list in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        list.retain(|name, _| !is_missing(name));
    }
}

/// Sets all extended resources to 0 until their plugins register again.
pub(super) fn reset_extended_resources(status: &mut NodeStatus) {
    for list in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        let devices = list.iter_mut().filter(|(name, _)| is_extended(name));
        devices.for_each(|(_, amount)| amount.0 = "0".to_owned());
    }
}

pub(super) const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// Extended resources have a domain other than `kubernetes.io`.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
