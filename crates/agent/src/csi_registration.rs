//! Registration of CSI drivers: what the driver says of the node goes to the CSINode and the Node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use decide::csi_node::{
    DriverOnNode, is_owned_by, new_csi_node, node_patch, node_patch_without, supported_version, with_driver,
    without_driver,
};
use ports::api::csi_nodes::ApiCsiNodes;
use ports::api::nodes::ApiNodes;
use ports::api::{ApiError, ApiErrorKind};
use ports::csi::{CsiConnector, CsiNode, CsiNodeInfo};
use ports::plugin_registry::{PluginError, PluginInfo, PluginType};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::csi_drivers::CsiDrivers;
use crate::metered_csi::MeteredCsi;
use crate::metrics::Metrics;
use crate::node_view::{self, NodeView};

/// As upstream: 30 ms, eight times longer each time.
const FIRST_WAIT: Duration = Duration::from_millis(30);
const TRIES: u32 = 5;
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const DEADLINE: Duration = Duration::from_secs(20);

/// CSI drivers as a type of plugins.
pub struct CsiPlugins {
    drivers: Arc<CsiDrivers>,
    connector: Arc<dyn CsiConnector>,
    nodes: Arc<dyn ApiNodes>,
    csi_nodes: Arc<dyn ApiCsiNodes>,
    node: String,
    metrics: Arc<Metrics>,
    versions: Mutex<BTreeMap<String, (u32, u32, u32)>>,
    /// Drivers write the same two objects, one at a time.
    turn: tokio::sync::Mutex<()>,
}

/// What the cluster is told of a driver.
#[derive(Clone, Copy)]
enum News<'a> {
    Here(&'a DriverOnNode),
    Gone(&'a str),
}

impl CsiPlugins {
    /// For one node.
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

    /// Makes the CSINode, so that the scheduler knows that the node has no drivers yet.
    ///
    /// # Errors
    /// When the API server does not let us.
    pub async fn make_csi_node(&self) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        self.own_csi_node().await.map(|_| ())
    }

    /// Asks a driver anew what it says of the node, and tells the cluster if that changed.
    ///
    /// # Errors
    /// When the driver or the API server does not answer.
    pub async fn refresh(&self, name: &str) -> Result<(), String> {
        let info = self.drivers.get(name)?.info().await.map_err(|error| error.to_string())?;
        self.install(&on_node(name, info)).await
    }

    async fn install(&self, driver: &DriverOnNode) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        let node = within(self.nodes.get()).await.map_err(|error| error.to_string())?;
        if let Some(patch) = node_patch(&node, driver)? {
            let patched = within(self.nodes.patch_status(&patch)).await;
            patched
                .map_err(|error| format!("error updating Node object with CSI driver node info: {error}"))?;
        }
        let object = self.own_csi_node().await?;
        if let Some(changed) = with_driver(&object, driver) {
            let replaced = within(self.csi_nodes.replace(&changed)).await;
            replaced.map_err(|error| {
                format!("error updating CSINode object with CSI driver node info: {error}")
            })?;
        }
        Ok(())
    }

    async fn uninstall(&self, name: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        // Registered again while an earlier try failed: what is written now is the new one's.
        if self.drivers.get(name).is_ok() {
            return Ok(());
        }
        match within(self.csi_nodes.get()).await {
            Ok(object) => {
                if let Some(changed) = without_driver(&object, name) {
                    within(self.csi_nodes.replace(&changed)).await.map_err(|error| error.to_string())?;
                }
            }
            Err(error) if error.kind == ApiErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
        let node = within(self.nodes.get()).await.map_err(|error| error.to_string())?;
        if let Some(patch) = node_patch_without(&node, name)? {
            within(self.nodes.patch_status(&patch)).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The CSINode of this very node, made if it is missing. One of an earlier node of the same name goes.
    async fn own_csi_node(&self) -> Result<k8s_openapi::api::storage::v1::CSINode, String> {
        let told = |error: ApiError| format!("error updating CSINode: {error}");
        let node = within(self.nodes.get()).await.map_err(told)?;
        let uid = node.metadata.uid.unwrap_or_default();
        match within(self.csi_nodes.get()).await {
            Ok(object) if is_owned_by(&object, &self.node, &uid) => return Ok(object),
            Ok(_) => within(self.csi_nodes.delete()).await.map_err(told)?,
            Err(error) if error.kind == ApiErrorKind::NotFound => {}
            Err(error) => return Err(told(error)),
        }
        within(self.csi_nodes.create(&new_csi_node(&self.node, &uid))).await.map_err(told)?;
        within(self.csi_nodes.get()).await.map_err(told)
    }

    /// Tells the cluster, a few times if need be.
    async fn tell(&self, news: News<'_>) -> Result<(), String> {
        let mut wait = FIRST_WAIT;
        for _ in 0..TRIES {
            match self.try_tell(news).await {
                Ok(()) => return Ok(()),
                Err(error) => tracing::debug!(%error, "the cluster could not be told of drivers"),
            }
            tokio::time::sleep(wait).await;
            wait *= 8;
        }
        self.try_tell(news).await
    }

    async fn try_tell(&self, news: News<'_>) -> Result<(), String> {
        match news {
            News::Here(driver) => self.install(driver).await,
            News::Gone(name) => self.uninstall(name).await,
        }
    }

    /// The highest version that a driver and this agent speak.
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
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    fn forget(&self, name: &str) {
        self.drivers.deregister(name);
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// A driver that was let in before the cluster knows of it. It goes again unless it may stay, also when nobody waits for
/// its registration any more: whoever comes next under its name would be refused.
struct Entered<'a> {
    plugins: &'a CsiPlugins,
    name: &'a str,
    driver: Arc<dyn CsiNode>,
    stays: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Another may have taken its place.
        if !self.stays
            && self.plugins.drivers.get(self.name).is_ok_and(|known| Arc::ptr_eq(&known, &self.driver))
        {
            self.plugins.forget(self.name);
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
        // Volumes of pods that run already may be needed before the cluster can be told.
        self.drivers.register(&plugin.name, driver.clone());
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).insert(plugin.name.clone(), version);
        let mut entered = Entered { plugins: self, name: &plugin.name, driver, stays: false };
        self.tell(News::Here(&on_node)).await.map_err(PluginError)?;
        entered.stays = true;
        Ok(())
    }

    async fn deregister(&self, plugin: &PluginInfo) {
        self.forget(&plugin.name);
        self.abandon(plugin).await;
    }

    async fn abandon(&self, plugin: &PluginInfo) {
        if let Err(error) = self.tell(News::Gone(&plugin.name)).await {
            tracing::warn!(driver = %plugin.name, %error, "the cluster still believes that a driver is here");
        }
    }
}

fn on_node(name: &str, info: CsiNodeInfo) -> DriverOnNode {
    DriverOnNode {
        name: name.to_owned(),
        node_id: info.node_id,
        most_volumes: info.most_volumes,
        topology: info.topology,
    }
}

async fn within<T>(asked: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match tokio::time::timeout(DEADLINE, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(ApiError {
            kind: ApiErrorKind::Unreachable,
            message: format!("no answer after {}s", DEADLINE.as_secs()),
            retry_after: None,
        }),
    }
}

/// Makes the CSINode once the node is known, so that the scheduler knows that it has no drivers yet. `obstacle` is what
/// keeps the node from becoming ready until then.
pub async fn begin(
    plugins: Arc<CsiPlugins>,
    mut view: watch::Receiver<NodeView>,
    obstacle: watch::Sender<Option<String>>,
    cancel: CancellationToken,
) {
    let made = async {
        node_view::known(&mut view).await;
        let mut wait = Duration::from_secs(1);
        while let Err(error) = plugins.make_csi_node().await {
            tracing::warn!(%error, "the CSINode is not made; trying again");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        obstacle.send_replace(None);
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = made => {}
    }
    cancel.cancelled().await;
}

#[cfg(test)]
mod tests;
