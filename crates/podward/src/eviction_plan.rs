//! What the configuration says of a node that runs short.

use std::time::Duration;

use config::configuration::Enforcement;
use config::{Gate, GoDuration, Loaded};
use decide::eviction::{Configured, Settings, thresholds};

/// Thresholds and graces. Validation has seen the words.
pub(crate) fn eviction(loaded: &Loaded) -> Settings {
    let (reservations, pods) = (&loaded.config.reservations, &loaded.config.pods);
    let grace = |signal: &str| -> Duration {
        let text = reservations.eviction_soft_grace_period.get(signal);
        text.and_then(|text| text.parse::<GoDuration>().ok()).map_or(Duration::ZERO, GoDuration::to_std)
    };
    let soft = reservations.eviction_soft.iter();
    let configured = Configured {
        hard: reservations.eviction_hard.as_ref(),
        soft: soft.map(|(signal, text)| (signal.as_str(), text.as_str(), grace(signal))).collect(),
        min_reclaim: Some(&reservations.eviction_minimum_reclaim),
        limits_pods: reservations.enforce_node_allocatable.contains(&Enforcement::Pods),
    };
    Settings {
        thresholds: thresholds(&configured),
        transition: reservations.eviction_pressure_transition_period.to_std(),
        max_pod_grace_seconds: u64::try_from(reservations.eviction_max_pod_grace_period).unwrap_or(0),
        local_storage: pods.local_storage_capacity_isolation,
        split_disks: loaded.gates.enabled(Gate::KubeletSeparateDiskGC),
        kernel_notification: reservations.kernel_memcg_notification,
    }
}
