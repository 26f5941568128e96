//! Wiring of the statistics.

use std::sync::Arc;

use agent::claims::Claims;
use agent::csi_drivers::CsiDrivers;
use agent::observation::Observer;
use agent::published::Reader;
use agent::statistics::{Parts, Statistics};
use model::Pod;
use ports::event_recorder::EventRecorder;

use super::World;
use crate::plan::Plan;

/// What the rest of the agent lends.
pub(super) struct Tables<'a> {
    pub(super) observer: &'a Observer,
    pub(super) desired: &'a Reader<Pod>,
    pub(super) claims: Option<&'a Arc<Claims>>,
    pub(super) drivers: Option<&'a Arc<CsiDrivers>>,
    pub(super) events: &'a Arc<dyn EventRecorder>,
}

/// Makes the service.
pub(super) fn statistics(world: &World, plan: &Plan, tables: &Tables<'_>) -> Arc<Statistics> {
    Arc::new(Statistics::new(Parts {
        runtime: world.runtime.clone(),
        usage: world.usage.clone(),
        disks: world.disk_usage.clone(),
        observer: tables.observer.clone(),
        desired: tables.desired.clone(),
        claims: tables.claims.cloned(),
        drivers: tables.drivers.cloned(),
        events: tables.events.clone(),
        metrics: world.metrics.clone(),
        host: world.host.clone(),
        clock: world.clock.clone(),
        node: Arc::new(plan.settings.clone()),
        settings: plan.statistics.clone(),
    }))
}
