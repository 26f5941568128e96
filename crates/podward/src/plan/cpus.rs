//! The CPU policy and the CPUs that it may assign.

use std::path::Path;

use anyhow::Context as _;
use config::configuration::{CpuManagerPolicy, Managers};
use config::{Gate, LoadedConfig};
use decide::cpus::StaticPolicy;
use model::{CpuPlacement, CpuPolicy, CpuPolicyOptions, ExclusiveQuota, NodeResources};
use values::cpu_set::CpuSet;

pub(super) fn cpu_policy(loaded: &LoadedConfig) -> CpuPolicy {
    let is_unlimited = loaded.gates.enabled(Gate::DisableCPUQuotaWithExclusiveCPUs);
    match loaded.config.managers.cpu_manager_policy {
        CpuManagerPolicy::None => CpuPolicy::None,
        CpuManagerPolicy::Static => CpuPolicy::Static {
            quota: if is_unlimited { ExclusiveQuota::None } else { ExclusiveQuota::Limit },
        },
    }
}

/// CPUs of the cgroup of all pods; the static policy sets those of each container instead.
pub(super) fn pods_cpus(loaded: &LoadedConfig) -> anyhow::Result<Option<CpuSet>> {
    match cpu_policy(loaded) {
        CpuPolicy::None => {
            let online: CpuSet = host::online_cpus(Path::new("/sys")).parse().context("online CPUs")?;
            Ok(Some(online).filter(|cpus| !cpus.is_empty()))
        }
        CpuPolicy::Static { .. } => Ok(None),
    }
}

/// Reads the topology of the machine, which only the static policy needs.
pub(super) fn static_policy(
    loaded: &LoadedConfig,
    resources: &NodeResources,
) -> anyhow::Result<Option<StaticPolicy>> {
    if cpu_policy(loaded) == CpuPolicy::None {
        return Ok(None);
    }
    let topology = host::cpu_topology(Path::new("/sys"), Path::new("/proc")).context("CPU topology")?;
    anyhow::ensure!(!topology.cpus.is_empty(), "could not detect number of cpus");
    let cpu = |reserved: &model::ResourceAmounts| reserved.get("cpu").copied().unwrap_or(0);
    let reserved = cpu(&resources.kube_reserved).saturating_add(cpu(&resources.system_reserved));
    let configured: CpuSet =
        loaded.config.reservations.reserved_system_cpus.parse().context("reservedSystemCPUs")?;
    let options = options(&loaded.config.managers);
    Ok(Some(StaticPolicy::new(topology, options, reserved, &configured)?))
}

fn options(managers: &Managers) -> CpuPolicyOptions {
    let is_on = |name| managers.has_cpu_option(name);
    let placement = if is_on("distribute-cpus-across-numa") {
        CpuPlacement::AcrossNumaNodes
    } else if is_on("distribute-cpus-across-cores") {
        CpuPlacement::AcrossCores
    } else if is_on("prefer-align-cpus-by-uncorecache") {
        CpuPlacement::PackedByUncoreCache
    } else {
        CpuPlacement::Packed
    };
    CpuPolicyOptions {
        placement,
        full_cores_only: is_on("full-pcpus-only"),
        strict_reservation: is_on("strict-cpu-reservation"),
        align_by_socket: is_on("align-by-socket"),
    }
}
