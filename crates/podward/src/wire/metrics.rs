//! Wraps adapters so that their calls are counted and timed.

use std::sync::Arc;

use agent::metrics::metered_cgroups::MeteredCgroups;
use agent::volumes::metered_volumes::MeteredVolumes;
use ports::host::pod_volumes::PodVolumes;

use super::Adapters;

pub(super) fn metered(adapters: Adapters) -> Adapters {
    let cgroups = MeteredCgroups { inner: adapters.cgroups, metrics: adapters.metrics.clone() };
    Adapters { cgroups: Arc::new(cgroups), ..adapters }
}

pub(super) fn metered_volumes(adapters: &Adapters, volumes: Arc<dyn PodVolumes>) -> Arc<dyn PodVolumes> {
    let volumes = Arc::new(MeteredVolumes::new(volumes, adapters.metrics.clone()));
    adapters.metrics.add(volumes.clone());
    volumes
}
