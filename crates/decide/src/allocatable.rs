//! What of the machine pods may have.

use model::{NodeResources, ResourceAmounts};

use crate::quantity::Amount;

const HUGEPAGES_PREFIX: &str = "hugepages-";

/// What pods may request: the capacity less both reservations and the hard eviction thresholds; memory also less
/// all pages set aside as huge ones. Never below zero.
#[must_use]
pub fn allocatable(resources: &NodeResources) -> ResourceAmounts {
    let NodeResources { capacity, kube_reserved, system_reserved, eviction_hard } = resources;
    let mut left = less(capacity, &[kube_reserved, system_reserved, eviction_hard]);
    let pages = capacity.iter().filter(|(name, _)| name.starts_with(HUGEPAGES_PREFIX));
    let pages: i64 = pages.map(|(_, bytes)| *bytes).sum();
    if let Some(memory) = left.get_mut("memory") {
        *memory = memory.saturating_sub(pages).max(0);
    }
    // Process ids are limited for all pods together, nobody requests them.
    left.remove("pid");
    left
}

/// What the cgroup of all pods is limited to: eviction needs room to see that memory runs short, so its
/// thresholds are left in.
#[must_use]
pub fn enforced(resources: &NodeResources) -> ResourceAmounts {
    let mut left = less(&resources.capacity, &[&resources.kube_reserved, &resources.system_reserved]);
    left.remove("pods");
    left
}

/// The reservations that are larger than what there is, in upstream's words.
#[must_use]
pub fn impossible_reservations(resources: &NodeResources) -> Vec<String> {
    let reserved = |name: &str| -> i64 {
        [&resources.kube_reserved, &resources.system_reserved, &resources.eviction_hard]
            .into_iter()
            .filter_map(|list| list.get(name))
            .fold(0, |sum, amount| sum.saturating_add(*amount))
    };
    let too_much = resources.capacity.iter().filter(|(name, there)| reserved(name) > **there);
    too_much
        .map(|(name, there)| {
            format!(
                "Resource {name:?} has a reservation of {} but capacity of {there}. Expected capacity >= reservation.",
                reserved(name)
            )
        })
        .collect()
}

/// What a hard eviction threshold (`100Mi`, `10%`) of a capacity keeps free.
#[must_use]
pub fn threshold(text: &str, capacity: i64) -> i64 {
    // Both turn the threshold off.
    if matches!(text, "0%" | "100%") {
        return 0;
    }
    match text.strip_suffix('%').and_then(|number| number.parse::<f32>().ok()) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "upstream's arithmetic, digit by digit"
        )]
        Some(percent) => (capacity as f64 * f64::from(percent / 100.0)) as i64,
        None => Amount::parse(text).map_or(0, Amount::units),
    }
}

fn less(capacity: &ResourceAmounts, reserved: &[&ResourceAmounts]) -> ResourceAmounts {
    let left = |name: &String, there: i64| {
        let kept = reserved.iter().filter_map(|list| list.get(name));
        kept.fold(there, |left, kept| left.saturating_sub(*kept)).max(0)
    };
    capacity.iter().map(|(name, there)| (name.clone(), left(name, *there))).collect()
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
    fn pods_get_what_reservations_thresholds_and_huge_pages_leave() {
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
    fn the_cgroup_of_all_pods_keeps_room_for_eviction() {
        let left = enforced(&resources());
        assert_eq!((left["cpu"], left["memory"], left["pid"]), (3000, 7 << 30, 31768));
        assert!(!left.contains_key("pods"));
    }

    #[test]
    fn reservations_beyond_the_machine_leave_nothing_and_are_named() {
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
    fn thresholds_are_amounts_or_shares() {
        assert_eq!(threshold("100Mi", 0), 100 << 20);
        assert_eq!(threshold("10%", 1000), 100);
        assert_eq!(threshold("rubbish", 1000), 0);
    }
}
