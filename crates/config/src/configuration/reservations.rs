//! Resources kept from pods, and eviction when the node runs short.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{is_zero, unless_set};
use crate::duration::GoDuration;

/// Resources kept from pods, and eviction when the node runs short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservations {
    /// Resources for the system, by name (`cpu`, `memory`, `ephemeral-storage`, `pid`).
    #[serde(skip_serializing_if = "is_zero")]
    pub system_reserved: BTreeMap<String, String>,
    /// Resources for Kubernetes itself, by the same names.
    #[serde(skip_serializing_if = "is_zero")]
    pub kube_reserved: BTreeMap<String, String>,
    /// CPUs for both (`0-1,4`); empty for none.
    #[serde(rename = "reservedSystemCPUs", skip_serializing_if = "is_zero")]
    pub reserved_system_cpus: String,
    /// Cgroup the system reservation is enforced on.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_reserved_cgroup: String,
    /// Cgroup the Kubernetes reservation is enforced on.
    #[serde(skip_serializing_if = "is_zero")]
    pub kube_reserved_cgroup: String,
    /// Which reservations are enforced.
    pub enforce_node_allocatable: Vec<Enforcement>,
    /// Share of memory requests kept from lower classes (alpha).
    #[serde(skip_serializing_if = "is_zero")]
    pub qos_reserved: BTreeMap<String, String>,
    /// Thresholds at which pods are evicted at once; not set and empty are different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Thresholds at which pods are evicted after a grace period.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_soft: BTreeMap<String, String>,
    /// Those grace periods, by signal.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// How much more than needed is reclaimed, by signal.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// How long a pressure condition outlives its cause.
    pub eviction_pressure_transition_period: GoDuration,
    /// Longest grace of a pod evicted by a soft threshold, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_max_pod_grace_period: i32,
    /// Whether hard thresholds that are not given keep their defaults.
    pub merge_default_eviction_settings: bool,
    /// Whether the kernel tells when memory runs short.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_memcg_notification: bool,
}

/// Which reservation is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// None; stands alone.
    None,
    /// What is left for pods.
    Pods,
    /// The system's.
    SystemReserved,
    /// The system's CPU only.
    SystemReservedCompressible,
    /// The one for Kubernetes.
    KubeReserved,
    /// The one for Kubernetes, CPU only.
    KubeReservedCompressible,
}

impl Default for Reservations {
    fn default() -> Self {
        Self {
            system_reserved: BTreeMap::new(),
            kube_reserved: BTreeMap::new(),
            reserved_system_cpus: String::new(),
            system_reserved_cgroup: String::new(),
            kube_reserved_cgroup: String::new(),
            enforce_node_allocatable: vec![Enforcement::Pods],
            qos_reserved: BTreeMap::new(),
            eviction_hard: None,
            eviction_soft: BTreeMap::new(),
            eviction_soft_grace_period: BTreeMap::new(),
            eviction_minimum_reclaim: BTreeMap::new(),
            eviction_pressure_transition_period: GoDuration::from_secs(300),
            eviction_max_pod_grace_period: 0,
            merge_default_eviction_settings: false,
            kernel_memcg_notification: false,
        }
    }
}

/// The hard thresholds of a configuration file that gives none.
pub fn default_eviction_hard() -> BTreeMap<String, String> {
    [
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("nodefs.inodesFree", "5%"),
        ("imagefs.available", "15%"),
        ("imagefs.inodesFree", "5%"),
    ]
    .into_iter()
    .map(|(signal, threshold)| (signal.to_owned(), threshold.to_owned()))
    .collect()
}

impl Reservations {
    pub(super) fn complete(&mut self) {
        unless_set(
            &mut self.eviction_pressure_transition_period,
            Self::default().eviction_pressure_transition_period,
        );
    }

    /// Adds the default hard thresholds; only a configuration file gets them, the flag-only path does not.
    pub(crate) fn inject_default_thresholds(&mut self) {
        match &mut self.eviction_hard {
            None => self.eviction_hard = Some(default_eviction_hard()),
            Some(thresholds) if self.merge_default_eviction_settings => {
                for (signal, threshold) in default_eviction_hard() {
                    thresholds.entry(signal).or_insert(threshold);
                }
            }
            Some(_) => {}
        }
    }
}
