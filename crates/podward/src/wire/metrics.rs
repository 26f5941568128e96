//! Wiring of what is measured and asked for when somebody reads the metrics.

use std::sync::Arc;

use agent::metered_cgroups::MeteredCgroups;
use agent::metered_volumes::MeteredVolumes;
use ports::pod_volumes::PodVolumes;

use super::World;

/// The world, with the changes of cgroups measured.
pub(super) fn metered(world: World) -> World {
    let cgroups = MeteredCgroups { inner: world.cgroups, metrics: world.metrics.clone() };
    World { cgroups: Arc::new(cgroups), ..world }
}

/// Volumes, measured and counted.
pub(super) fn metered_volumes(world: &World, volumes: Arc<dyn PodVolumes>) -> Arc<dyn PodVolumes> {
    let volumes = Arc::new(MeteredVolumes::new(volumes, world.metrics.clone()));
    world.metrics.add(volumes.clone());
    volumes
}
