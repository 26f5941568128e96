//! Starts claims and CSI drivers.

use std::sync::Arc;

use agent::cluster::tokens::Tokens;
use agent::node::node_reports::NodeReportSenders;
use agent::node::node_view::NodeView;
use agent::volumes::claims::Claims;
use agent::volumes::csi_allocatable;
use agent::volumes::csi_drivers::{self, CsiDrivers};
use agent::volumes::csi_registration::{self, CsiPlugins};
use agent::volumes::csi_volumes::{self, CsiVolumes};
use ports::host::csi_folders::CsiFolders;
use ports::host::pod_volumes::PodVolumes;
use ports::plugins::csi::CsiConnector;
use tokio::sync::watch;

use super::context::Context;
use super::{Running, metrics};

/// Adapters of plugins and their volumes.
#[derive(Clone)]
pub struct PluginPorts {
    pub folders: Arc<dyn CsiFolders>,
    pub connector: Arc<dyn CsiConnector>,
}

/// Volumes of pods. Claims and drivers exist only with an API server.
pub(super) struct Volumes {
    pub(super) volumes: Arc<dyn PodVolumes>,
    pub(super) claims: Option<Arc<Claims>>,
    pub(super) drivers: Option<Arc<CsiDrivers>>,
    /// Registers drivers.
    pub(super) registration: Option<Arc<CsiPlugins>>,
}

/// Parts that exist only with an API server.
type ClusterSide<'a> = (Option<&'a watch::Receiver<NodeView>>, Option<&'a Arc<Tokens>>);

/// With an API server, starts what serves claims and drivers; without one, only local volumes work.
pub(super) fn start_volumes(
    running: &mut Running,
    context: &Context,
    (view, tokens): ClusterSide<'_>,
    reporters: &NodeReportSenders,
) -> Volumes {
    let adapters = &context.adapters;
    let (Some(api), Some(view), Some(tokens)) = (context.api(), view, tokens) else {
        let volumes = metrics::metered_volumes(adapters, adapters.volumes.clone());
        return Volumes { volumes, claims: None, drivers: None, registration: None };
    };
    let node = &context.settings.name;
    let cancel = running.cancel.clone();
    let claims = Arc::new(Claims::new(api.volumes.clone(), adapters.checkpoints.clone()));
    let drivers = Arc::new(CsiDrivers::default());
    let feed = api.volumes.watch_drivers();
    running.spawn("csi drivers", csi_drivers::follow(drivers.clone(), feed, cancel.clone()));

    let objects = (api.nodes.clone(), api.csi_nodes.clone());
    let connector = api.plugins.connector.clone();
    let csi = Arc::new(CsiPlugins::new(
        drivers.clone(),
        connector,
        objects,
        node.to_owned(),
        adapters.metrics.clone(),
    ));
    let begun = csi_registration::begin(csi.clone(), view.clone(), reporters.storage.clone(), cancel.clone());
    running.spawn("csi node", begun);
    let refreshed = csi_allocatable::run(csi.clone(), drivers.clone(), cancel.clone());
    running.spawn("csi allocatable", refreshed);

    let volumes = Arc::new(CsiVolumes::new(csi_volumes::CsiVolumesDeps {
        others: adapters.volumes.clone(),
        folders: api.plugins.folders.clone(),
        drivers: drivers.clone(),
        api: api.volumes.clone(),
        claims: claims.clone(),
        tokens: tokens.clone(),
        node_view: view.clone(),
        in_use: reporters.volumes_in_use.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        node: node.to_owned(),
    }));
    running.spawn("csi volumes", csi_volumes::begin(volumes.clone(), cancel));
    let volumes = metrics::metered_volumes(adapters, volumes);
    Volumes { volumes, claims: Some(claims), drivers: Some(drivers), registration: Some(csi) }
}
