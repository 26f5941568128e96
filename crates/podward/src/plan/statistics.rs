//! Settings of statistics.

use agent::statistics::Settings;
use config::{Gate, LoadedConfig};

pub(crate) fn statistics(loaded: &LoadedConfig) -> Settings {
    let (cgroups, volumes) = (&loaded.config.cgroups, &loaded.config.volumes);
    let named = |path: &str| (!path.is_empty()).then(|| path.to_owned());
    let period = volumes.volume_stats_agg_period.to_std();
    Settings {
        // A negative period switches volume statistics off.
        volume_period: (!period.is_zero()).then_some(period),
        volume_health: loaded.gates.enabled(Gate::CSIVolumeHealth),
        kubelet_cgroup: named(&cgroups.kubelet_cgroups),
        runtime_cgroup: loaded.flags.runtime_cgroups.clone().filter(|path| !path.is_empty()),
        system_cgroup: named(&cgroups.system_cgroups),
    }
}
