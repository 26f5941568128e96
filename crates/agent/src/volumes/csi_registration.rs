//! Registration of CSI drivers in the CSINode and Node objects.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use decide::node::csi_node::{
    DriverOnNode, is_owned_by, new_csi_node, node_patch, node_patch_without, supported_version, with_driver,
    without_driver,
};
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::nodes::ApiNodes;
use ports::api::{ApiError, ApiErrorKind};
use ports::plugins::csi::{CsiConnector, CsiNode, CsiNodeInfo};
use ports::plugins::plugin_registry::{PluginError, PluginInfo, PluginType};
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster::api_timeout::within_deadline;
use crate::metrics::Metrics;
use crate::node::node_view::{self, NodeView};
use crate::volumes::csi_drivers::CsiDrivers;
use crate::volumes::metered_csi::MeteredCsi;

/// Retries of an update of the CSINode and the Node: 30 ms, eight times longer each time, as upstream.
const UPDATE_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(30), Duration::from_secs(123))
        .with_factor(8.0)
        .with_jitter(0.1);
const TRIES: u32 = 5;
/// Retries of the creation of the CSINode. Jitter keeps nodes apart that lost their API server together.
const CREATE_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(30)).with_jitter(0.5);

pub struct CsiPlugins {
    drivers: Arc<CsiDrivers>,
    connector: Arc<dyn CsiConnector>,
    nodes: Arc<dyn ApiNodes>,
    csi_nodes: Arc<dyn ApiCsiNodes>,
    node: String,
    metrics: Arc<Metrics>,
    versions: Mutex<BTreeMap<String, (u32, u32, u32)>>,
    /// Serialises updates, because all drivers share the same two objects.
    turn: tokio::sync::Mutex<()>,
}

impl CsiPlugins {
    #[must_use]
    pub fn new(
        drivers: Arc<CsiDrivers>,
        connector: Arc<dyn CsiConnector>,
        (nodes, csi_nodes): (Arc<dyn ApiNodes>, Arc<dyn ApiCsiNodes>),
        node: String,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (versions, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { drivers, connector, nodes, csi_nodes, node, metrics, versions, turn }
    }

    /// Creates the CSINode, so that the scheduler knows that the node has no drivers yet.
    ///
    /// # Errors
    /// When the API server does not let us.
    pub async fn create_csi_node(&self) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        self.own_csi_node().await.map(|_| ())
    }

    /// Reads the node information of a driver again, and updates the objects if it changed.
    ///
    /// # Errors
    /// When the driver or the API server fails.
    pub async fn refresh(&self, name: &str) -> Result<(), String> {
        let info = self.drivers.get(name)?.info().await.map_err(|error| error.to_string())?;
        self.install(&on_node(name, info)).await
    }

    async fn install(&self, driver: &DriverOnNode) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        let failed_to_update = |object: &'static str| {
            move |error| format!("error updating {object} object with CSI driver node info: {error}")
        };
        let node = within_deadline(self.nodes.get()).await.map_err(|error| error.to_string())?;
        if let Some(patch) = node_patch(&node, driver)? {
            within_deadline(self.nodes.patch_status(&patch)).await.map_err(failed_to_update("Node"))?;
        }
        let object = self.own_csi_node().await?;
        if let Some(changed) = with_driver(&object, driver) {
            within_deadline(self.csi_nodes.replace(&changed)).await.map_err(failed_to_update("CSINode"))?;
        }
        Ok(())
    }

    async fn uninstall(&self, name: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        // The driver was registered again meanwhile.
        if self.drivers.get(name).is_ok() {
            return Ok(());
        }
        match within_deadline(self.csi_nodes.get()).await {
            Ok(object) => {
                if let Some(changed) = without_driver(&object, name) {
                    within_deadline(self.csi_nodes.replace(&changed))
                        .await
                        .map_err(|error| error.to_string())?;
                }
            }
            Err(error) if error.kind == ApiErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
        let node = within_deadline(self.nodes.get()).await.map_err(|error| error.to_string())?;
        if let Some(patch) = node_patch_without(&node, name)? {
            within_deadline(self.nodes.patch_status(&patch)).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The CSINode of this node; creates it if it is missing, and replaces that of an earlier node of the same name.
    async fn own_csi_node(&self) -> Result<k8s_openapi::api::storage::v1::CSINode, String> {
        let update_error = |error: ApiError| format!("error updating CSINode: {error}");
        let node = within_deadline(self.nodes.get()).await.map_err(update_error)?;
        let uid = node.metadata.uid.unwrap_or_default();
        match within_deadline(self.csi_nodes.get()).await {
            Ok(object) if is_owned_by(&object, &self.node, &uid) => return Ok(object),
            Ok(_) => within_deadline(self.csi_nodes.delete()).await.map_err(update_error)?,
            Err(error) if error.kind == ApiErrorKind::NotFound => {}
            Err(error) => return Err(update_error(error)),
        }
        within_deadline(self.csi_nodes.create(&new_csi_node(&self.node, &uid)))
            .await
            .map_err(update_error)?;
        within_deadline(self.csi_nodes.get()).await.map_err(update_error)
    }

    /// The highest version that the driver and the agent support.
    fn validated(&self, plugin: &PluginInfo) -> Result<(u32, u32, u32), String> {
        let version = supported_version(&plugin.name, &plugin.versions)?;
        match self.version(&plugin.name).filter(|known| *known >= version) {
            None => Ok(version),
            Some((major, minor, patch)) => Err(format!(
                "kubernetes.io/csi: ValidatePlugin for CSI driver {:?} failed. Another driver with the same name is \
                 already registered with a higher supported version: \"{major}.{minor}.{patch}\"",
                plugin.name
            )),
        }
    }

    fn version(&self, name: &str) -> Option<(u32, u32, u32)> {
        self.versions.lock().get(name).copied()
    }

    fn remove(&self, name: &str) {
        self.drivers.deregister(name);
        self.versions.lock().remove(name);
    }
}

/// Removes a driver again unless its registration completes, so that a later driver of the same name can be registered.
struct PendingDriver<'a> {
    plugins: &'a CsiPlugins,
    name: &'a str,
    driver: Arc<dyn CsiNode>,
    stays: bool,
}

impl Drop for PendingDriver<'_> {
    fn drop(&mut self) {
        // Another driver may have been registered meanwhile.
        if !self.stays
            && self.plugins.drivers.get(self.name).is_ok_and(|known| Arc::ptr_eq(&known, &self.driver))
        {
            self.plugins.remove(self.name);
        }
    }
}

#[async_trait]
impl PluginType for CsiPlugins {
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        self.validated(plugin).map(drop).map_err(|reason| {
            let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
            PluginError(format!("validation failed for CSI Driver {name} at endpoint {endpoint}: {reason}"))
        })
    }

    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        let version = self.validated(plugin).map_err(PluginError)?;
        let driver: Arc<dyn CsiNode> = Arc::new(MeteredCsi {
            inner: self.connector.connect(&plugin.endpoint),
            name: plugin.name.clone(),
            metrics: self.metrics.clone(),
        });
        let info = driver.info().await.map_err(|error| PluginError(error.to_string()))?;
        if info.node_id.is_empty() {
            let reason = "error adding CSI driver node info: driverNodeID must not be empty";
            return Err(PluginError(reason.to_owned()));
        }
        let on_node = on_node(&plugin.name, info);
        // Running pods may need the driver before the objects can be updated.
        self.drivers.register(&plugin.name, driver.clone());
        self.versions.lock().insert(plugin.name.clone(), version);
        let mut entered = PendingDriver { plugins: self, name: &plugin.name, driver, stays: false };
        with_retries(async || self.install(&on_node).await).await.map_err(PluginError)?;
        entered.stays = true;
        Ok(())
    }

    async fn deregister(&self, plugin: &PluginInfo) {
        self.remove(&plugin.name);
        self.abandon(plugin).await;
    }

    async fn abandon(&self, plugin: &PluginInfo) {
        if let Err(error) = with_retries(async || self.uninstall(&plugin.name).await).await {
            tracing::warn!(driver = %plugin.name, %error, "failed to remove a driver from the CSINode and Node objects");
        }
    }
}

/// Retries an update of the CSINode and Node objects.
async fn with_retries<F: Future<Output = Result<(), String>>>(update: impl Fn() -> F) -> Result<(), String> {
    let mut backoff = Backoff::new(UPDATE_BACKOFF);
    for _ in 0..TRIES {
        match update().await {
            Ok(()) => return Ok(()),
            Err(error) => tracing::debug!(%error, "failed to update the CSINode and Node objects"),
        }
        tokio::time::sleep(backoff.next(random())).await;
    }
    update().await
}

fn on_node(name: &str, info: CsiNodeInfo) -> DriverOnNode {
    DriverOnNode {
        name: name.to_owned(),
        node_id: info.node_id,
        max_volumes: info.max_volumes,
        topology: info.topology,
    }
}

/// Creates the CSINode once the node is registered, so that the scheduler knows that it has no drivers yet. Until then `obstacle` keeps
/// the node from becoming ready.
pub async fn begin(
    plugins: Arc<CsiPlugins>,
    mut view: watch::Receiver<NodeView>,
    obstacle: watch::Sender<Option<String>>,
    cancel: CancellationToken,
) {
    let made = async {
        node_view::wait_until_known(&mut view).await;
        let mut backoff = Backoff::new(CREATE_BACKOFF);
        while let Err(error) = plugins.create_csi_node().await {
            tracing::warn!(%error, "failed to create the CSINode, retrying");
            tokio::time::sleep(backoff.next(random())).await;
        }
        obstacle.send_replace(None);
    };
    cancel.run_until_cancelled(made).await;
    cancel.cancelled().await;
}

#[cfg(test)]
mod tests;
