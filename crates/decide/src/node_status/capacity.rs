//! What the node has and what pods may have of it.

use k8s_openapi::api::core::v1::NodeStatus;
use model::NodeResources;

use super::amounts::put;
use crate::allocatable::allocatable;

/// Sets the machine's own resources. Those that others announced keep their capacity, all of which pods may have.
pub(super) fn set(status: &mut NodeStatus, resources: &NodeResources) {
    let capacity = status.capacity.get_or_insert_default();
    // Process ids are limited, but nobody requests them.
    for (name, amount) in resources.capacity.iter().filter(|(name, _)| name.as_str() != "pid") {
        put(capacity, name, *amount);
    }
    let given = status.allocatable.get_or_insert_default();
    given.retain(|name, _| capacity.contains_key(name) || !is_extended(name));
    let own = allocatable(resources);
    for (name, amount) in &own {
        put(given, name, *amount);
    }
    for (name, amount) in capacity.iter().filter(|(name, _)| !own.contains_key(*name)) {
        given.insert(name.clone(), amount.clone());
    }
}

/// Huge pages of a size that the kernel no longer has.
pub(super) fn drop_lost_huge_pages(status: &mut NodeStatus, resources: &NodeResources) {
    let lost =
        |name: &String| name.starts_with(HUGE_PAGES) && !resources.capacity.contains_key(name.as_str());
    for list in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        list.retain(|name, _| !lost(name));
    }
}

/// Nothing of the devices that are announced is there until their plugins say so.
pub(super) fn forget_devices(status: &mut NodeStatus) {
    for list in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
        let devices = list.iter_mut().filter(|(name, _)| is_extended(name));
        devices.for_each(|(_, amount)| amount.0 = "0".to_owned());
    }
}

pub(super) const HUGE_PAGES: &str = "hugepages-";

/// Resources of devices have a domain that is not Kubernetes' own.
pub(crate) fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
