//! Limits of the cgroup of all pods and of the cgroups with reserved resources.

use model::{CgroupLimits, Enforcement, HugepageLimits, NodeSettings, ResourceAmounts};

use crate::cgroups::allocatable::pods_cgroup_amounts;
use crate::pod_resources::resources::cpu_shares;

/// Limits of the cgroup of all pods: the capacity, minus the reservations if they are enforced.
pub fn all_pods_limits(settings: &NodeSettings) -> CgroupLimits {
    let resources = &settings.resources;
    let amounts = if settings.cgroups.enforced.contains(&Enforcement::Pods) {
        pods_cgroup_amounts(resources)
    } else {
        resources.capacity.clone()
    };
    // The QoS cgroups have no hugepage limits, so their parent has none either.
    CgroupLimits { hugepages: HugepageLimits::Unlimited, ..limits(&amounts, LimitedResources::All) }
}

/// An existing cgroup with the limits of its reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedCgroup {
    /// `System` or `Kube`.
    pub owner: &'static str,
    /// ` Compressible` if only CPU is limited, else empty.
    pub part: &'static str,
    pub path: String,
    pub limits: CgroupLimits,
}

/// The cgroups of enforced reservations, in upstream's order.
pub fn reserved_cgroups(settings: &NodeSettings) -> Vec<ReservedCgroup> {
    let (resources, cgroups) = (&settings.resources, &settings.cgroups);
    let system = (&cgroups.system_cgroup, &resources.system_reserved, "System");
    let kube = (&cgroups.kube_cgroup, &resources.kube_reserved, "Kube");
    let order = [
        (Enforcement::SystemReserved, system, LimitedResources::All),
        (Enforcement::KubeReserved, kube, LimitedResources::All),
        (Enforcement::SystemReservedCompressible, system, LimitedResources::Compressible),
        (Enforcement::KubeReservedCompressible, kube, LimitedResources::Compressible),
    ];
    let enforced = order.into_iter().filter(|(enforcement, ..)| cgroups.enforced.contains(enforcement));
    let one =
        |(_, (path, reserved, owner), limited): (_, (&String, &ResourceAmounts, _), LimitedResources)| {
            let part = match limited {
                LimitedResources::All => "",
                LimitedResources::Compressible => " Compressible",
            };
            let mut limits = limits(reserved, limited);
            // Whatever the policy, the kernel must not reclaim the memory of the system for pods.
            limits.memory_min = limits.memory.filter(|_| cgroups.memory_qos.is_some());
            ReservedCgroup { owner, part, path: path.clone(), limits }
        };
    enforced.map(one).collect()
}

#[derive(Clone, Copy)]
enum LimitedResources {
    All,
    Compressible,
}

fn limits(amounts: &ResourceAmounts, limited: LimitedResources) -> CgroupLimits {
    let cpu_shares = amounts.get("cpu").map(|milli| cpu_shares(*milli).unsigned_abs());
    match limited {
        LimitedResources::Compressible => CgroupLimits { cpu_shares, ..CgroupLimits::default() },
        LimitedResources::All => CgroupLimits {
            cpu_shares,
            memory: amounts.get("memory").copied(),
            pids: amounts.get("pid").copied(),
            // Hugepages are never reserved.
            hugepages: HugepageLimits::Sizes(Vec::new()),
            ..CgroupLimits::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use model::{MemoryQos, MemoryReservation, NodeResources};

    use super::*;
    use crate::runtime_spec::pod_paths::tests::settings;

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
    fn pods_cgroup_excludes_enforced_reservations() {
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
    fn memory_qos_protects_enforced_memory_reservations() {
        let mut settings = node(&[Enforcement::SystemReserved, Enforcement::KubeReservedCompressible]);
        let qos = MemoryQos { throttling_factor: 0.9, reservation: MemoryReservation::None, page_size: 4096 };
        settings.cgroups.memory_qos = Some(qos);
        let found = reserved_cgroups(&settings).into_iter().map(|cgroup| cgroup.limits.memory_min);
        assert_eq!(found.collect::<Vec<_>>(), [Some(GI), None]);
        assert_eq!(all_pods_limits(&settings).memory_min, None);
    }

    #[test]
    fn reserved_cgroups_are_limited_to_their_reservation() {
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
