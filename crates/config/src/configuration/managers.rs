//! CPU, memory and topology managers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;
use values::quantity::WrittenQuantity;

use crate::flags::parse_boolean;

use super::{default_if_zero, empty_is_default, is_zero};

/// Settings of the CPU, memory and topology managers.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Managers {
    #[serde(deserialize_with = "empty_is_default")]
    pub cpu_manager_policy: CpuManagerPolicy,
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    #[default(GoDuration::from_secs(10))]
    pub cpu_manager_reconcile_period: GoDuration,
    #[serde(deserialize_with = "empty_is_default")]
    pub memory_manager_policy: MemoryManagerPolicy,
    /// Memory that pods cannot use, per NUMA node.
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_memory: Vec<MemoryReservation>,
    #[serde(deserialize_with = "empty_is_default")]
    pub topology_manager_policy: TopologyPolicy,
    #[serde(deserialize_with = "empty_is_default")]
    pub topology_manager_scope: TopologyScope,
    #[serde(skip_serializing_if = "is_zero")]
    pub topology_manager_policy_options: BTreeMap<String, String>,
    /// Factor of the memory limit at which memory allocations are throttled (alpha).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[default(Some(0.9))]
    pub memory_throttling_factor: Option<f64>,
    #[serde(deserialize_with = "empty_is_default")]
    pub memory_reservation_policy: MemoryReservationPolicy,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuManagerPolicy {
    #[default]
    None,
    /// Guaranteed containers that request whole CPUs get exclusive ones.
    Static,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryManagerPolicy {
    #[default]
    None,
    /// Guaranteed pods get memory from selected NUMA nodes.
    Static,
}

/// Memory that pods cannot use on one NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryReservation {
    pub numa_node: i32,
    /// By kind: `memory`, `hugepages-2Mi`.
    pub limits: BTreeMap<String, WrittenQuantity>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyPolicy {
    #[default]
    None,
    /// Prefers aligned resources.
    BestEffort,
    /// Rejects pods whose resources cannot be aligned.
    Restricted,
    /// Rejects pods whose resources do not fit on one NUMA node.
    SingleNumaNode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyScope {
    #[default]
    Container,
    Pod,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryReservationPolicy {
    #[default]
    None,
    /// Memory requests are protected according to the QoS class.
    TieredReservation,
}

impl Managers {
    /// Whether an option of the static CPU policy is on.
    #[must_use]
    pub fn has_cpu_option(&self, name: &str) -> bool {
        self.cpu_manager_policy_options.get(name).is_some_and(|value| parse_boolean(value) == Ok(true))
    }

    /// Whether an option of the topology manager is on.
    #[must_use]
    pub fn has_topology_option(&self, name: &str) -> bool {
        let value = self.topology_manager_policy_options.get(name);
        value.is_some_and(|value| parse_boolean(value) == Ok(true))
    }

    /// `max-allowable-numa-nodes`.
    #[must_use]
    pub fn max_numa_nodes(&self) -> Option<usize> {
        self.topology_manager_policy_options.get("max-allowable-numa-nodes")?.parse().ok()
    }

    pub(super) fn apply_defaults(&mut self) {
        let default = Self::default();
        default_if_zero(&mut self.cpu_manager_reconcile_period, default.cpu_manager_reconcile_period);
        self.memory_throttling_factor = self.memory_throttling_factor.or(default.memory_throttling_factor);
    }
}
