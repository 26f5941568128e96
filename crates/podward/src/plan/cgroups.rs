//! Settings of cgroups and swap.

use config::LoadedConfig;
use config::configuration::{Enforcement as Configured, SwapBehavior as ConfiguredSwap};
use decide::cgroups::system_cgroups::SystemCgroupSettings;
use model::{CgroupSettings, Enforcement, SwapBehavior};

pub(crate) fn cgroups(loaded: &LoadedConfig) -> CgroupSettings {
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
    }
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
