//! Starts drivers of dynamic resource allocation and the claims that they prepare.

use std::sync::Arc;

use agent::dynamic_resources::device_health::{DeviceHealth, DeviceHealthDeps};
use agent::dynamic_resources::dra_drivers::{self, DraDriverEnds, DraDrivers};
use agent::dynamic_resources::health_streams::{self, HealthStreamsDeps};
use agent::dynamic_resources::resource_claims::{ResourceClaims, ResourceClaimsDeps};
use agent::dynamic_resources::resource_slices;
use agent::dynamic_resources::unprepare_vanished::{self, UnprepareVanishedDeps};
use agent::node::node_view::NodeView;
use decide::resource_claims::PreparedClaims;
use decide::resource_claims::device_health::DeviceHealthTable;
use ports::api::resource_claims::ApiResourceClaims;
use ports::plugins::dra::DraConnector;
use tokio::sync::watch;

use super::Running;
use super::context::Context;

/// Adapters of drivers and their claims.
#[derive(Clone)]
pub struct DynamicResourcePorts {
    pub api: Arc<dyn ApiResourceClaims>,
    pub connector: Arc<dyn DraConnector>,
    /// The claims that an earlier run of the agent prepared.
    pub restored: PreparedClaims,
    /// The health of devices that an earlier run of the agent knew.
    pub restored_health: DeviceHealthTable,
}

/// Drivers and claims exist only with an API server.
pub(super) struct DynamicResources {
    pub(super) drivers: Arc<DraDrivers>,
    pub(super) claims: Arc<ResourceClaims>,
    /// `None` when the health of devices is not shown.
    pub(super) health: Option<Arc<DeviceHealth>>,
}

pub(super) fn start_dynamic_resources(
    running: &mut Running,
    context: &Context,
    view: Option<&watch::Receiver<NodeView>>,
    sources_ready: &watch::Receiver<bool>,
) -> Option<DynamicResources> {
    let adapters = &context.adapters;
    let (ports, view) = (&context.api()?.dynamic_resources, view?);
    let cancel = &running.cancel.clone();
    let (drivers, DraDriverEnds { registered, connected }) =
        DraDrivers::new(ports.connector.clone(), adapters.metrics.clone());
    running.spawn("dra drivers", dra_drivers::run(drivers.clone(), registered, cancel.clone()));
    let slices = resource_slices::run(ports.api.clone(), view.clone(), drivers.usable(), cancel.clone());
    running.spawn("resource slices", slices);
    let deps = ResourceClaimsDeps {
        api: ports.api.clone(),
        drivers: drivers.clone(),
        files: adapters.state_files.clone(),
        metrics: adapters.metrics.clone(),
        extended: context.plan.extended_resources,
    };
    let claims = Arc::new(ResourceClaims::new(deps, ports.restored.clone()));
    adapters.metrics.add(claims.clone());
    let deps = UnprepareVanishedDeps {
        claims: claims.clone(),
        desired: context.tables.desired.clone(),
        workers: context.tables.workers.clone(),
        sources_ready: sources_ready.clone(),
    };
    running.spawn("unprepare vanished pods", unprepare_vanished::run(deps, cancel.clone()));
    let health = context.settings.gates.resource_health.then(|| device_health(context, &claims, ports));
    if let Some(health) = health.clone() {
        let deps = HealthStreamsDeps { health, connected };
        running.spawn("health of claimed devices", health_streams::run(deps, cancel.clone()));
    }
    Some(DynamicResources { drivers, claims, health })
}

fn device_health(
    context: &Context,
    claims: &Arc<ResourceClaims>,
    ports: &DynamicResourcePorts,
) -> Arc<DeviceHealth> {
    Arc::new(DeviceHealth::new(DeviceHealthDeps {
        claims: claims.clone(),
        files: context.adapters.state_files.clone(),
        clock: context.adapters.clock.clone(),
        messages: context.plan.health_messages,
        listener: context.tables.to_status.clone(),
        restored: ports.restored_health.clone(),
    }))
}
