//! Limits of the cgroups that share out the node: of all pods, and of those that resources are reserved for.

use model::{CgroupLimits, Enforcement, HugepageLimits, NodeSettings, ResourceAmounts};

use crate::allocatable::enforced;
use crate::resources::cpu_shares;

/// Limits of the cgroup of all pods: what reservations leave where that is enforced, else all there is.
#[must_use]
pub fn all_pods_limits(settings: &NodeSettings) -> CgroupLimits {
    let resources = &settings.resources;
    let amounts = if settings.cgroups.enforced.contains(&Enforcement::Pods) {
        enforced(resources)
    } else {
        resources.capacity.clone()
    };
    // Classes are not limited in pages, so their parent is not either.
    CgroupLimits { hugepages: HugepageLimits::Unlimited, ..limits(&amounts, Parts::All) }
}

/// A cgroup that must exist, and the reservation it is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedCgroup {
    /// For whom: `System` or `Kube`.
    pub owner: &'static str,
    /// ` Compressible` when only CPU is held.
    pub part: &'static str,
    /// The cgroup as configured.
    pub path: String,
    /// Its limits.
    pub limits: CgroupLimits,
}

/// Reservations that are enforced, in upstream's order.
#[must_use]
pub fn reserved_cgroups(settings: &NodeSettings) -> Vec<ReservedCgroup> {
    let (resources, cgroups) = (&settings.resources, &settings.cgroups);
    let system = (&cgroups.system_cgroup, &resources.system_reserved, "System");
    let kube = (&cgroups.kube_cgroup, &resources.kube_reserved, "Kube");
    let order = [
        (Enforcement::SystemReserved, system, Parts::All),
        (Enforcement::KubeReserved, kube, Parts::All),
        (Enforcement::SystemReservedCompressible, system, Parts::Compressible),
        (Enforcement::KubeReservedCompressible, kube, Parts::Compressible),
    ];
    let wanted = order.into_iter().filter(|(enforcement, ..)| cgroups.enforced.contains(enforcement));
    let one = |(_, (path, reserved, owner), parts): (_, (&String, &ResourceAmounts, _), Parts)| {
        let part = match parts {
            Parts::All => "",
            Parts::Compressible => " Compressible",
        };
        ReservedCgroup { owner, part, path: path.clone(), limits: limits(reserved, parts) }
    };
    wanted.map(one).collect()
}

#[derive(Clone, Copy)]
enum Parts {
    All,
    Compressible,
}

fn limits(amounts: &ResourceAmounts, parts: Parts) -> CgroupLimits {
    let cpu_shares = amounts.get("cpu").map(|milli| cpu_shares(*milli).unsigned_abs());
    match parts {
        Parts::Compressible => CgroupLimits { cpu_shares, ..CgroupLimits::default() },
        Parts::All => CgroupLimits {
            cpu_shares,
            memory: amounts.get("memory").copied(),
            pids: amounts.get("pid").copied(),
            // Nothing is reserved in pages.
            hugepages: HugepageLimits::Sizes(Vec::new()),
            ..CgroupLimits::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use model::NodeResources;

    use super::*;
    use crate::pod_paths::tests::settings;

    const GI: i64 = 1 << 30;

    fn list(entries: &[(&str, i64)]) -> ResourceAmounts {
        entries.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    fn node(enforced: &[Enforcement]) -> NodeSettings {
        let mut settings = settings();
        settings.resources = NodeResources {
            capacity: list(&[("cpu", 4000), ("memory", 8 * GI), ("pid", 32_768), ("pods", 110)]),
            system_reserved: list(&[("cpu", 500), ("memory", GI), ("pid", 768)]),
            kube_reserved: list(&[("cpu", 1000), ("memory", GI)]),
            eviction_hard: list(&[("memory", GI)]),
        };
        settings.cgroups.enforced = enforced.to_vec();
        settings.cgroups.system_cgroup = "/system".into();
        settings.cgroups.kube_cgroup = "/kube".into();
        settings
    }

    #[test]
    fn the_cgroup_of_all_pods_is_limited_to_what_is_left_if_that_is_enforced() {
        let whole = CgroupLimits {
            cpu_shares: Some(4096),
            memory: Some(8 * GI),
            pids: Some(32_768),
            hugepages: HugepageLimits::Unlimited,
            ..CgroupLimits::default()
        };
        assert_eq!(all_pods_limits(&node(&[])), whole);
        let left = CgroupLimits { cpu_shares: Some(2560), memory: Some(6 * GI), pids: Some(32_000), ..whole };
        assert_eq!(all_pods_limits(&node(&[Enforcement::Pods])), left);
    }

    #[test]
    fn reserved_cgroups_are_held_to_what_is_reserved_for_them() {
        let system = CgroupLimits {
            cpu_shares: Some(512),
            memory: Some(GI),
            pids: Some(768),
            hugepages: HugepageLimits::Sizes(Vec::new()),
            ..CgroupLimits::default()
        };
        let kube = CgroupLimits { cpu_shares: Some(1024), ..CgroupLimits::default() };
        let enforced =
            [Enforcement::KubeReservedCompressible, Enforcement::SystemReserved, Enforcement::Pods];
        assert_eq!(
            reserved_cgroups(&node(&enforced)),
            [
                ReservedCgroup { owner: "System", part: "", path: "/system".into(), limits: system },
                ReservedCgroup { owner: "Kube", part: " Compressible", path: "/kube".into(), limits: kube },
            ]
        );
    }
}
