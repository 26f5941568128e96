//! Allocatable resources of the node.

use model::{NodeResources, ResourceAmounts};

use crate::eviction::ThresholdValue;

const HUGEPAGES_PREFIX: &str = "hugepages-";

/// Allocatable of the node: the capacity minus both reservations and the hard eviction thresholds; memory also minus all
/// hugepages. Never below zero.
pub fn allocatable(resources: &NodeResources) -> ResourceAmounts {
    let NodeResources { capacity, kube_reserved, system_reserved, eviction_hard } = resources;
    let mut left = subtract(capacity, &[kube_reserved, system_reserved, eviction_hard]);
    let pages = capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
    let pages: i64 = pages.map(|(_, bytes)| *bytes).sum();
    if let Some(memory) = left.get_mut("memory") {
        *memory = memory.saturating_sub(pages).max(0);
    }
    // Process IDs are limited for all pods together and cannot be requested.
    left.remove("pid");
    left
}

/// Limits of the cgroup of all pods. The eviction thresholds are not subtracted, so that eviction acts before the limit is
/// reached.
pub fn pods_cgroup_amounts(resources: &NodeResources) -> ResourceAmounts {
    let mut left = subtract(&resources.capacity, &[&resources.kube_reserved, &resources.system_reserved]);
    left.remove("pods");
    left
}

/// Error messages for reservations that exceed the capacity, as upstream writes them.
pub fn impossible_reservations(resources: &NodeResources) -> Vec<String> {
    let reserved = |name: &str| -> i64 {
        [&resources.kube_reserved, &resources.system_reserved, &resources.eviction_hard]
            .into_iter()
            .filter_map(|list| list.get(name))
            .fold(0, |sum, amount| sum.saturating_add(*amount))
    };
    let too_much = resources.capacity.iter().filter(|(name, available)| reserved(name) > **available);
    too_much
        .map(|(name, available)| {
            format!(
                "Resource {name:?} has a reservation of {} but capacity of {available}. Expected capacity >= reservation.",
                reserved(name)
            )
        })
        .collect()
}

/// The amount of a hard eviction threshold (`100Mi`, `10%`).
pub fn threshold_amount(text: &str, capacity: i64) -> i64 {
    // Both disable the threshold.
    if matches!(text, "0%" | "100%") {
        return 0;
    }
    ThresholdValue::parse(text).map_or(0, |value| value.of(capacity))
}

fn subtract(capacity: &ResourceAmounts, reserved: &[&ResourceAmounts]) -> ResourceAmounts {
    let left = |name: &String, available: i64| {
        let reserved_amount = reserved.iter().filter_map(|list| list.get(name));
        reserved_amount.fold(available, |left, reserved_amount| left.saturating_sub(*reserved_amount)).max(0)
    };
    capacity.iter().map(|(name, available)| (name.clone(), left(name, *available))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn amounts<const N: usize>(list: [(&str, i64); N]) -> ResourceAmounts {
        list.map(|(name, amount)| (name.to_owned(), amount)).into()
    }

    /// A node of 4 CPUs and 8 GiB.
    pub(crate) fn resources() -> NodeResources {
        NodeResources {
            capacity: amounts([
                ("cpu", 4000),
                ("memory", 8 << 30),
                ("ephemeral-storage", 100 << 30),
                ("hugepages-2Mi", 1 << 30),
                ("pid", 32768),
                ("pods", 110),
            ]),
            kube_reserved: amounts([("cpu", 500), ("memory", 1 << 30), ("pid", 1000)]),
            system_reserved: amounts([("cpu", 500)]),
            eviction_hard: amounts([("memory", 100 << 20), ("ephemeral-storage", 10 << 30)]),
        }
    }

    #[test]
    fn allocatable_excludes_reservations_thresholds_and_hugepages() {
        let expected = amounts([
            ("cpu", 3000),
            ("memory", (6 << 30) - (100 << 20)),
            ("ephemeral-storage", 90 << 30),
            ("hugepages-2Mi", 1 << 30),
            ("pods", 110),
        ]);
        assert_eq!(allocatable(&resources()), expected);
    }

    #[test]
    fn pods_cgroup_limit_includes_eviction_thresholds() {
        let left = pods_cgroup_amounts(&resources());
        assert_eq!((left["cpu"], left["memory"], left["pid"]), (3000, 7 << 30, 31768));
        assert!(!left.contains_key("pods"));
    }

    #[test]
    fn excessive_reservations_are_reported_and_leave_nothing() {
        let mut resources = resources();
        resources.kube_reserved = amounts([("cpu", 9000)]);
        assert_eq!(allocatable(&resources)["cpu"], 0);
        assert_eq!(
            impossible_reservations(&resources),
            [
                "Resource \"cpu\" has a reservation of 9500 but capacity of 4000. Expected capacity >= reservation."
            ]
        );
    }

    #[test]
    fn threshold_is_an_amount_or_a_percentage() {
        assert_eq!(threshold_amount("100Mi", 0), 100 << 20);
        assert_eq!(threshold_amount("10%", 1000), 100);
        assert_eq!(threshold_amount("rubbish", 1000), 0);
    }
}
