//! Reserved resources and eviction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use values::duration::GoDuration;

use super::{default_if_zero, is_zero};

/// Reserved resources and eviction.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservations {
    /// Resources for the operating system, by name (`cpu`, `memory`, `ephemeral-storage`, `pid`).
    #[serde(skip_serializing_if = "is_zero")]
    pub system_reserved: BTreeMap<String, String>,
    /// Resources for Kubernetes components, by the same names.
    #[serde(skip_serializing_if = "is_zero")]
    pub kube_reserved: BTreeMap<String, String>,
    /// CPUs for the operating system and Kubernetes components (`0-1,4`); empty for none.
    #[serde(rename = "reservedSystemCPUs", skip_serializing_if = "is_zero")]
    pub reserved_system_cpus: String,
    /// Cgroup in which `system_reserved` is enforced.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_reserved_cgroup: String,
    /// Cgroup in which `kube_reserved` is enforced.
    #[serde(skip_serializing_if = "is_zero")]
    pub kube_reserved_cgroup: String,
    #[default(_code = "vec![Enforcement::Pods]")]
    pub enforce_node_allocatable: Vec<Enforcement>,
    /// Share of memory requests that lower QoS classes cannot use (alpha).
    #[serde(skip_serializing_if = "is_zero")]
    pub qos_reserved: BTreeMap<String, String>,
    /// Thresholds at which pods are evicted immediately. `None` gets defaults, an empty map disables them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Thresholds at which pods are evicted after a grace period.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_soft: BTreeMap<String, String>,
    /// Grace periods of the soft thresholds, by signal.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_soft_grace_period: BTreeMap<String, String>,
    /// Minimum amount to reclaim, by signal.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_minimum_reclaim: BTreeMap<String, String>,
    /// How long a pressure condition remains set after the pressure ends.
    #[default(GoDuration::from_secs(300))]
    pub eviction_pressure_transition_period: GoDuration,
    /// Maximum termination grace period of a pod that is evicted because of a soft threshold, in seconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub eviction_max_pod_grace_period: i32,
    /// Whether hard thresholds that are not set keep their defaults.
    pub merge_default_eviction_settings: bool,
    /// Whether kernel notifications are used for memory thresholds.
    #[serde(skip_serializing_if = "is_zero")]
    pub kernel_memcg_notification: bool,
}

/// A reservation that is enforced with cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// No enforcement; must be the only item.
    None,
    /// The allocatable resources of the node limit all pods together.
    Pods,
    SystemReserved,
    /// Only the CPU of the system reservation.
    SystemReservedCompressible,
    KubeReserved,
    /// Only the CPU of the Kubernetes reservation.
    KubeReservedCompressible,
}

/// The hard thresholds if the configuration file sets none.
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
    pub(super) fn apply_defaults(&mut self) {
        default_if_zero(
            &mut self.eviction_pressure_transition_period,
            Self::default().eviction_pressure_transition_period,
        );
    }

    /// Adds the default hard thresholds. Like upstream, they apply only if there is a configuration file.
    pub(crate) fn apply_default_thresholds(&mut self) {
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
