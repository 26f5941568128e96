//! Creates the statistics service.

use std::sync::Arc;

use agent::statistics::{Statistics, StatisticsDeps};

use super::context::Context;
use super::volumes::Volumes;

pub(super) fn statistics(context: &Context, volumes: &Volumes) -> Arc<Statistics> {
    let (adapters, tables) = (&context.adapters, &context.tables);
    Arc::new(Statistics::new(StatisticsDeps {
        runtime: adapters.runtime.clone(),
        usage: adapters.usage.clone(),
        disks: adapters.disk_usage.clone(),
        observer: tables.observer.clone(),
        desired: tables.desired.clone(),
        claims: volumes.claims.clone(),
        drivers: volumes.drivers.clone(),
        events: context.events.clone(),
        metrics: adapters.metrics.clone(),
        host: adapters.host.clone(),
        clock: adapters.clock.clone(),
        node: context.settings.clone(),
        settings: context.plan.statistics.clone(),
    }))
}
