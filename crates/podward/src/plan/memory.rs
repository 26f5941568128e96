//! The policy of the memory manager.

use config::LoadedConfig;
use config::configuration::MemoryManagerPolicy;
use decide::memory::{MemoryPolicy, MemoryReservations};
use model::{NodeResources, NumaNode, ResourceAmounts};

/// `None` with the policy `None`.
pub(super) fn memory_policy(
    loaded: &LoadedConfig,
    resources: &NodeResources,
    nodes: &[NumaNode],
) -> anyhow::Result<Option<MemoryPolicy>> {
    let managers = &loaded.config.managers;
    match managers.memory_manager_policy {
        MemoryManagerPolicy::None => Ok(None),
        MemoryManagerPolicy::Static => {
            let mut reservations = MemoryReservations::new();
            for reservation in &managers.reserved_memory {
                let own = reservations.entry(reservation.numa_node).or_default();
                for (kind, amount) in &reservation.limits {
                    let bytes = u64::try_from(amount.amount().units()).unwrap_or_default();
                    own.insert(kind.clone(), bytes);
                }
            }
            Ok(Some(MemoryPolicy::new(nodes, &reservations, &node_reserved(resources))?))
        }
    }
}

/// The sum of all reservations of the node, which upstream's node allocatable feature subtracts.
fn node_reserved(resources: &NodeResources) -> ResourceAmounts {
    let mut reserved = ResourceAmounts::new();
    for list in [&resources.kube_reserved, &resources.system_reserved, &resources.eviction_hard] {
        for (name, amount) in list {
            let sum = reserved.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    reserved.retain(|_, amount| *amount != 0);
    reserved
}

pub(super) fn policy_name(loaded: &LoadedConfig) -> model::MemoryManagerPolicy {
    match loaded.config.managers.memory_manager_policy {
        MemoryManagerPolicy::None => model::MemoryManagerPolicy::None,
        MemoryManagerPolicy::Static => model::MemoryManagerPolicy::Static,
    }
}
