//! Settings of cgroups and swap.

use config::configuration::{
    Enforcement as Configured, MemoryReservationPolicy, SwapBehavior as ConfiguredSwap,
};
use config::{Gate, LoadedConfig};
use decide::cgroups::system_cgroups::SystemCgroupSettings;
use model::{
    CgroupSettings, CgroupVersion, Enforcement, KernelVersion, MemoryQos, MemoryReservation, SwapBehavior,
};

/// The first kernel that hands protected memory of a cgroup down to its children.
const RECURSIVE_PROTECTION: KernelVersion = KernelVersion { major: 5, minor: 9 };

pub(crate) fn cgroups(loaded: &LoadedConfig, version: CgroupVersion) -> CgroupSettings {
    let reservations = &loaded.config.reservations;
    CgroupSettings {
        enforced: reservations.enforce_node_allocatable.iter().filter_map(|one| enforcement(*one)).collect(),
        system_cgroup: reservations.system_reserved_cgroup.clone(),
        kube_cgroup: reservations.kube_reserved_cgroup.clone(),
        swap: host::swap_capacity(),
        swap_behavior: match loaded.config.pods.memory_swap.swap_behavior {
            Some(ConfiguredSwap::LimitedSwap) => SwapBehavior::LimitedSwap,
            Some(ConfiguredSwap::NoSwap) | None => SwapBehavior::NoSwap,
        },
        memory_may_be_swapped: host::swap_enabled().unwrap_or(false) && !host::tmpfs_supports_noswap(),
        memory_qos: memory_qos(loaded).filter(|_| version == CgroupVersion::V2),
        qos_reserved_memory: qos_reserved_memory(loaded),
    }
}

fn memory_qos(loaded: &LoadedConfig) -> Option<MemoryQos> {
    let managers = &loaded.config.managers;
    let reservation = match managers.memory_reservation_policy {
        MemoryReservationPolicy::None => MemoryReservation::None,
        MemoryReservationPolicy::TieredReservation => MemoryReservation::Tiered,
    };
    // Validation requires the factor while the gate is on.
    let throttling_factor =
        managers.memory_throttling_factor.filter(|_| loaded.gates.enabled(Gate::MemoryQoS))?;
    if host::kernel_version() < RECURSIVE_PROTECTION {
        tracing::warn!(
            "the kernel is older than 5.9, memory of containers may be protected less than requested"
        );
    }
    Some(MemoryQos { throttling_factor, reservation, page_size: host::page_size() })
}

/// Validation accepts only `memory` with a percentage.
fn qos_reserved_memory(loaded: &LoadedConfig) -> Option<i64> {
    let text = loaded.config.reservations.qos_reserved.get("memory")?;
    let percent = text.strip_suffix('%')?.parse().ok();
    percent.filter(|_| loaded.gates.enabled(Gate::QOSReserved))
}

/// The cgroups of processes that belong to no pod.
pub(crate) fn system(loaded: &LoadedConfig) -> SystemCgroupSettings {
    let named = |path: &str| (!path.is_empty()).then(|| path.to_owned());
    let cgroups = &loaded.config.cgroups;
    SystemCgroupSettings { agent: named(&cgroups.kubelet_cgroups), system: named(&cgroups.system_cgroups) }
}

fn enforcement(configured: Configured) -> Option<Enforcement> {
    match configured {
        Configured::None => None,
        Configured::Pods => Some(Enforcement::Pods),
        Configured::SystemReserved => Some(Enforcement::SystemReserved),
        Configured::SystemReservedCompressible => Some(Enforcement::SystemReservedCompressible),
        Configured::KubeReserved => Some(Enforcement::KubeReserved),
        Configured::KubeReservedCompressible => Some(Enforcement::KubeReservedCompressible),
    }
}
