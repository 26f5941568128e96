//! Garbage collection, log rotation and the packet filter.

use config::{Gate, LoadedConfig};
use decide::images::image_gc::ImageGcPolicy;
use decide::pipeline::dead_containers::ContainerGcPolicy;
use values::quantity::Amount;

use super::positive;

/// Settings of the periodic cleanup.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep {
    pub containers: ContainerGcPolicy,
    pub images: ImageGcPolicy,
    pub logs: agent::upkeep::log_rotation::LogRotationSettings,
    /// Whether chains are kept in the packet filter (`makeIPTablesUtilChains`).
    pub packet_filter: bool,
}

pub(super) fn upkeep(loaded: &LoadedConfig) -> anyhow::Result<Upkeep> {
    let (images, logs, flags) = (&loaded.config.images, &loaded.config.volumes, &loaded.flags);
    let percent = |value: i32| u64::try_from(value).unwrap_or(0);
    // A negative number means no limit.
    let limit = |count: i32| usize::try_from(count).ok();
    let max_size = Amount::parse(&logs.container_log_max_size).ok_or_else(|| {
        anyhow::anyhow!("containerLogMaxSize: {:?} is no quantity", logs.container_log_max_size)
    })?;
    Ok(Upkeep {
        containers: ContainerGcPolicy {
            per_container: limit(flags.maximum_dead_containers_per_container),
            total: limit(flags.maximum_dead_containers),
            min_age: flags.minimum_container_ttl_duration.to_std(),
        },
        images: ImageGcPolicy {
            high_percent: percent(images.image_gc_high_threshold_percent),
            low_percent: percent(images.image_gc_low_threshold_percent),
            min_age: images.image_minimum_gc_age.to_std(),
            max_age: images.image_maximum_gc_age.to_std(),
            by_handler: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
        },
        logs: agent::upkeep::log_rotation::LogRotationSettings {
            max_size: u64::try_from(max_size.units()).ok(),
            max_files: usize::try_from(logs.container_log_max_files).unwrap_or(2),
            workers: usize::try_from(logs.container_log_max_workers).unwrap_or(1),
            interval: positive(logs.container_log_monitor_interval.to_std()),
        },
        packet_filter: loaded.config.network.make_iptables_util_chains,
    })
}
