//! Settings of eviction.

use std::time::Duration;

use config::configuration::Enforcement;
use config::{Gate, LoadedConfig};
use decide::eviction::{EvictionSettings, ThresholdConfig, thresholds};
use values::duration::GoDuration;

/// Thresholds and grace periods. Validation has already checked the texts.
pub(crate) fn eviction(loaded: &LoadedConfig) -> EvictionSettings {
    let (reservations, pods) = (&loaded.config.reservations, &loaded.config.pods);
    let grace = |signal: &str| -> Duration {
        let text = reservations.eviction_soft_grace_period.get(signal);
        text.and_then(|text| text.parse::<GoDuration>().ok()).map_or(Duration::ZERO, GoDuration::to_std)
    };
    let soft = reservations.eviction_soft.iter();
    let configured = ThresholdConfig {
        hard: reservations.eviction_hard.as_ref(),
        soft: soft.map(|(signal, text)| (signal.as_str(), text.as_str(), grace(signal))).collect(),
        min_reclaim: Some(&reservations.eviction_minimum_reclaim),
        limits_pods: reservations.enforce_node_allocatable.contains(&Enforcement::Pods),
    };
    EvictionSettings {
        thresholds: thresholds(&configured),
        transition: reservations.eviction_pressure_transition_period.to_std(),
        max_pod_grace_seconds: u64::try_from(reservations.eviction_max_pod_grace_period).unwrap_or(0),
        local_storage: pods.local_storage_capacity_isolation,
        split_disks: loaded.gates.enabled(Gate::KubeletSeparateDiskGC),
        kernel_notification: reservations.kernel_memcg_notification,
    }
}
