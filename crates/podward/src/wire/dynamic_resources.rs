//! Starts drivers of dynamic resource allocation and the claims that they prepare.

use std::sync::Arc;

use agent::dynamic_resources::dra_drivers::{self, DraDrivers};
use agent::dynamic_resources::resource_claims::ResourceClaims;
use agent::dynamic_resources::resource_slices;
use agent::dynamic_resources::unprepare_vanished::{self, UnprepareVanishedDeps};
use agent::node::node_view::NodeView;
use decide::resource_claims::PreparedClaims;
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
}

/// Drivers and claims exist only with an API server.
pub(super) struct DynamicResources {
    pub(super) drivers: Arc<DraDrivers>,
    pub(super) claims: Arc<ResourceClaims>,
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
    let (drivers, registered) = DraDrivers::new(ports.connector.clone(), adapters.metrics.clone());
    running.spawn("dra drivers", dra_drivers::run(drivers.clone(), registered, cancel.clone()));
    let slices = resource_slices::run(ports.api.clone(), view.clone(), drivers.usable(), cancel.clone());
    running.spawn("resource slices", slices);
    let claims = Arc::new(ResourceClaims::new(
        ports.api.clone(),
        drivers.clone(),
        adapters.state_files.clone(),
        adapters.metrics.clone(),
        ports.restored.clone(),
    ));
    adapters.metrics.add(claims.clone());
    let deps = UnprepareVanishedDeps {
        claims: claims.clone(),
        desired: context.tables.desired.clone(),
        workers: context.tables.workers.clone(),
        sources_ready: sources_ready.clone(),
    };
    running.spawn("unprepare vanished pods", unprepare_vanished::run(deps, cancel.clone()));
    Some(DynamicResources { drivers, claims })
}
