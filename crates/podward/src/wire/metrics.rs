//! Wiring of what is measured and asked for when somebody reads the metrics.

use std::sync::Arc;

use agent::metered_cgroups::MeteredCgroups;

use super::World;

/// The world, with the changes of cgroups measured.
pub(super) fn metered(world: World) -> World {
    let cgroups = MeteredCgroups { inner: world.cgroups, metrics: world.metrics.clone() };
    World { cgroups: Arc::new(cgroups), ..world }
}
