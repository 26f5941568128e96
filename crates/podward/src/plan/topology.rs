//! The policy of the topology manager.

use std::path::Path;

use anyhow::Context as _;
use config::configuration::{CpuManagerPolicy, Managers, MemoryManagerPolicy, TopologyPolicy, TopologyScope};
use config::{Gate, LoadedConfig};
use decide::topology::{Alignment, AlignmentOptions, AlignmentPolicy, AlignmentScope};
use model::{NumaNode, PodLevelManagement};

/// Reads the NUMA nodes of the machine, which only two resource managers need.
pub(super) fn numa_nodes(loaded: &LoadedConfig) -> anyhow::Result<Vec<NumaNode>> {
    let managers = &loaded.config.managers;
    let is_used = managers.topology_manager_policy != TopologyPolicy::None
        || managers.memory_manager_policy != MemoryManagerPolicy::None;
    if is_used { host::numa_nodes(Path::new("/sys")).context("NUMA nodes") } else { Ok(Vec::new()) }
}

/// `None` with the policy `none`, which upstream allows on every machine.
pub(super) fn alignment(loaded: &LoadedConfig, nodes: &[NumaNode]) -> anyhow::Result<Option<Alignment>> {
    let managers = &loaded.config.managers;
    let policy = match managers.topology_manager_policy {
        TopologyPolicy::None => return Ok(None),
        TopologyPolicy::BestEffort => AlignmentPolicy::BestEffort,
        TopologyPolicy::Restricted => AlignmentPolicy::Restricted,
        TopologyPolicy::SingleNumaNode => AlignmentPolicy::SingleNumaNode,
    };
    let scope = match managers.topology_manager_scope {
        TopologyScope::Container => AlignmentScope::Container,
        TopologyScope::Pod => AlignmentScope::Pod,
    };
    anyhow::ensure!(
        policy != AlignmentPolicy::SingleNumaNode || !aligns_by_socket(managers),
        "new static policy error: Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
    );
    let options = AlignmentOptions {
        prefer_closest: managers.has_topology_option("prefer-closest-numa-nodes"),
        max_nodes: managers.max_numa_nodes().unwrap_or(AlignmentOptions::default().max_nodes),
    };
    Ok(Some(Alignment::new(policy, scope, options, nodes)?))
}

/// Without alignment, the scope has no meaning.
pub(super) fn pod_level_management(loaded: &LoadedConfig) -> PodLevelManagement {
    let managers = &loaded.config.managers;
    let is_aligned = managers.topology_manager_policy != TopologyPolicy::None;
    match managers.topology_manager_scope {
        _ if !loaded.gates.enabled(Gate::PodLevelResourceManagers) => PodLevelManagement::Unmanaged,
        TopologyScope::Pod if is_aligned => PodLevelManagement::PerPod,
        TopologyScope::Pod | TopologyScope::Container => PodLevelManagement::PerContainer,
    }
}

fn aligns_by_socket(managers: &Managers) -> bool {
    managers.cpu_manager_policy == CpuManagerPolicy::Static && managers.has_cpu_option("align-by-socket")
}
