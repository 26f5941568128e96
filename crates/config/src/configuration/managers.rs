//! Placement of containers on CPUs, memory and NUMA nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{empty_is_default, is_zero, unless_set};
use crate::{duration::GoDuration, quantity::Quantity};

/// Placement of containers on CPUs, memory and NUMA nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Managers {
    /// Whether containers get CPUs of their own.
    #[serde(deserialize_with = "empty_is_default")]
    pub cpu_manager_policy: CpuManagerPolicy,
    /// Fine tuning of the CPU policy.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    /// How often CPU assignments are checked.
    pub cpu_manager_reconcile_period: GoDuration,
    /// Whether containers get memory of chosen NUMA nodes.
    #[serde(deserialize_with = "empty_is_default")]
    pub memory_manager_policy: MemoryManagerPolicy,
    /// Memory kept from pods, by NUMA node.
    #[serde(skip_serializing_if = "is_zero")]
    pub reserved_memory: Vec<MemoryReservation>,
    /// How strictly resources must come from near each other.
    #[serde(deserialize_with = "empty_is_default")]
    pub topology_manager_policy: TopologyPolicy,
    /// What is placed as one.
    #[serde(deserialize_with = "empty_is_default")]
    pub topology_manager_scope: TopologyScope,
    /// Fine tuning of the topology policy.
    #[serde(skip_serializing_if = "is_zero")]
    pub topology_manager_policy_options: BTreeMap<String, String>,
    /// Share of the memory limit at which allocations slow down (alpha).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_throttling_factor: Option<f64>,
    /// Whether memory requests are protected (alpha).
    #[serde(deserialize_with = "empty_is_default")]
    pub memory_reservation_policy: MemoryReservationPolicy,
}

/// Whether containers get CPUs of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuManagerPolicy {
    /// No.
    #[default]
    None,
    /// Guaranteed containers with whole CPUs do.
    Static,
}

/// Whether containers get memory of chosen NUMA nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryManagerPolicy {
    /// No.
    #[default]
    None,
    /// Guaranteed pods do.
    Static,
}

/// Memory kept from pods on one NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryReservation {
    /// The NUMA node.
    pub numa_node: i32,
    /// How much, by kind (`memory`, `hugepages-2Mi`).
    pub limits: BTreeMap<String, Quantity>,
}

/// How strictly resources must come from near each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyPolicy {
    /// Not at all.
    #[default]
    None,
    /// If possible.
    BestEffort,
    /// Or the pod is refused.
    Restricted,
    /// From one NUMA node, or the pod is refused.
    SingleNumaNode,
}

/// What is placed as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyScope {
    /// Each container.
    #[default]
    Container,
    /// Each pod.
    Pod,
}

/// Whether memory requests are protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryReservationPolicy {
    /// No.
    #[default]
    None,
    /// By quality of service.
    TieredReservation,
}

impl Default for Managers {
    fn default() -> Self {
        Self {
            cpu_manager_policy: CpuManagerPolicy::None,
            cpu_manager_policy_options: BTreeMap::new(),
            cpu_manager_reconcile_period: GoDuration::from_secs(10),
            memory_manager_policy: MemoryManagerPolicy::None,
            reserved_memory: Vec::new(),
            topology_manager_policy: TopologyPolicy::None,
            topology_manager_scope: TopologyScope::Container,
            topology_manager_policy_options: BTreeMap::new(),
            memory_throttling_factor: Some(0.9),
            memory_reservation_policy: MemoryReservationPolicy::None,
        }
    }
}

impl Managers {
    pub(super) fn complete(&mut self) {
        let default = Self::default();
        unless_set(&mut self.cpu_manager_reconcile_period, default.cpu_manager_reconcile_period);
        self.memory_throttling_factor = self.memory_throttling_factor.or(default.memory_throttling_factor);
    }
}
