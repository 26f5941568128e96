//! Wiring of claims, CSI drivers and the registration of plugins.

use std::sync::Arc;

use agent::claims::Claims;
use agent::csi_allocatable;
use agent::csi_drivers::{self, CsiDrivers};
use agent::csi_registration::{self, CsiPlugins};
use agent::csi_volumes::{self, CsiVolumes};
use agent::node_view::NodeView;
use agent::plugin_registry;
use agent::tokens::Tokens;
use ports::csi::CsiConnector;
use ports::csi_folders::CsiFolders;
use ports::event_recorder::EventRecorder;
use ports::plugin_registry::{PluginRegistration, PluginSockets, PluginType};
use ports::pod_volumes::PodVolumes;
use tokio::sync::watch;

use super::{ApiServer, Running, World};

/// What plugins and their volumes are reached through.
#[derive(Clone)]
pub struct PluginPorts {
    /// Folders of CSI volumes.
    pub folders: Arc<dyn CsiFolders>,
    /// Sockets of plugins.
    pub sockets: Arc<dyn PluginSockets>,
    /// CSI drivers.
    pub connector: Arc<dyn CsiConnector>,
    /// Registration.
    pub registration: Arc<dyn PluginRegistration>,
}

/// What the node's status needs of volumes, and what volumes need of the node.
pub(super) struct NodeLinks {
    /// The node as the API server shows it.
    pub(super) view: watch::Receiver<NodeView>,
    /// Volumes that must not be detached.
    pub(super) in_use: watch::Sender<Option<Vec<String>>>,
    /// What keeps the node from becoming ready while volumes cannot be had.
    pub(super) obstacle: watch::Sender<Option<String>>,
    /// Tokens of service accounts.
    pub(super) tokens: Arc<Tokens>,
    /// Events.
    pub(super) events: Arc<dyn EventRecorder>,
}

/// Volumes of a node in a cluster.
pub(super) struct Driven {
    /// All volumes of pods.
    pub(super) volumes: Arc<dyn PodVolumes>,
    /// Claims.
    pub(super) claims: Arc<Claims>,
    /// CSI drivers.
    pub(super) drivers: Arc<CsiDrivers>,
}

/// Starts what serves claims and drivers; the result takes the place of the volumes that know neither.
pub(super) fn start_volumes(
    running: &mut Running,
    world: &World,
    api: &ApiServer,
    node: &str,
    links: NodeLinks,
) -> Driven {
    let cancel = running.cancel.clone();
    let claims = Arc::new(Claims::new(api.volumes.clone(), world.checkpoints.clone()));
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
        world.metrics.clone(),
    ));
    let begun = csi_registration::begin(csi.clone(), links.view.clone(), links.obstacle, cancel.clone());
    running.spawn("csi node", begun);
    let refreshed = csi_allocatable::run(csi.clone(), drivers.clone(), cancel.clone());
    running.spawn("csi allocatable", refreshed);
    let parts = plugin_registry::Parts {
        sockets: api.plugins.sockets.clone(),
        watch: world.watch.clone(),
        registration: api.plugins.registration.clone(),
        types: [("CSIPlugin".to_owned(), csi as Arc<dyn PluginType>)].into(),
        metrics: world.metrics.clone(),
    };
    running.spawn("plugins", plugin_registry::run(parts, cancel.clone()));

    let volumes = Arc::new(CsiVolumes::new(csi_volumes::Parts {
        others: world.volumes.clone(),
        folders: api.plugins.folders.clone(),
        drivers: drivers.clone(),
        api: api.volumes.clone(),
        claims: claims.clone(),
        tokens: links.tokens,
        node_view: links.view,
        in_use: links.in_use,
        events: links.events,
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        node: node.to_owned(),
    }));
    running.spawn("csi volumes", csi_volumes::begin(volumes.clone(), cancel));
    Driven { volumes, claims, drivers }
}
