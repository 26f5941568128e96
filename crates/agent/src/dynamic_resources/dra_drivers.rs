//! The registered drivers, with a connection to each of their instances.
//!
//! A driver may have several instances, as during a rolling update. Calls go to the latest that is connected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{ClaimReference, PreparedDevice};
use parking_lot::Mutex;
use ports::plugins::dra::{ClaimResults, DraConnection, DraConnector, DraError, DraVersion};
use ports::plugins::plugin_registry::{PluginError, PluginInfo, PluginType};
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

const RECONNECT: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// Whether each driver that was registered since the start has a connected instance.
pub type UsableDrivers = BTreeMap<String, bool>;

pub struct DraDrivers {
    connector: Arc<dyn DraConnector>,
    metrics: Arc<Metrics>,
    /// In the order of their registration.
    instances: Mutex<Vec<Instance>>,
    usable: watch::Sender<UsableDrivers>,
    registered: mpsc::UnboundedSender<Registered>,
    connected: mpsc::UnboundedSender<Connected>,
}

struct Instance {
    driver: String,
    endpoint: PathBuf,
    version: DraVersion,
    connection: Option<Arc<dyn DraConnection>>,
    gone: CancellationToken,
}

/// An instance that needs a connection.
pub struct Registered {
    driver: String,
    endpoint: PathBuf,
    gone: CancellationToken,
}

/// An instance that has a new connection.
pub struct Connected {
    pub(super) driver: String,
    pub(super) connection: Arc<dyn DraConnection>,
    /// Cancelled when the instance is removed.
    pub(super) gone: CancellationToken,
}

/// The ends of the channels of the drivers.
pub struct DraDriverEnds {
    /// For [`run`].
    pub registered: mpsc::UnboundedReceiver<Registered>,
    /// For those that follow every connection. May be dropped.
    pub connected: mpsc::UnboundedReceiver<Connected>,
}

/// An instance to call.
pub struct DriverHandle {
    driver: String,
    endpoint: PathBuf,
    version: DraVersion,
    connection: Option<Arc<dyn DraConnection>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("DRA driver {0} is not registered")]
pub struct NotRegistered(pub String);

impl DraDrivers {
    #[must_use]
    pub fn new(connector: Arc<dyn DraConnector>, metrics: Arc<Metrics>) -> (Arc<Self>, DraDriverEnds) {
        let (registered, registered_end) = mpsc::unbounded_channel();
        let (connected, connected_end) = mpsc::unbounded_channel();
        let (instances, usable) = (Mutex::default(), watch::Sender::default());
        let ends = DraDriverEnds { registered: registered_end, connected: connected_end };
        (Arc::new(Self { connector, metrics, instances, usable, registered, connected }), ends)
    }

    #[must_use]
    pub fn usable(&self) -> watch::Receiver<UsableDrivers> {
        self.usable.subscribe()
    }

    /// # Errors
    /// When the driver is not registered.
    pub fn driver(&self, name: &str) -> Result<DriverHandle, NotRegistered> {
        let instances = self.instances.lock();
        let mut own = instances.iter().rev().filter(|instance| instance.driver == name);
        let connected = own.clone().find(|instance| instance.connection.is_some());
        let instance = connected.or_else(|| own.next()).ok_or_else(|| NotRegistered(name.to_owned()))?;
        Ok(DriverHandle {
            driver: name.to_owned(),
            endpoint: instance.endpoint.clone(),
            version: instance.version,
            connection: instance.connection.clone(),
        })
    }

    /// Calls `NodePrepareResources`.
    ///
    /// # Errors
    /// When the driver cannot be reached or fails.
    pub async fn prepare(
        &self,
        handle: &DriverHandle,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<Vec<PreparedDevice>>, DraError> {
        let call = async { self.connection(handle).await?.prepare(handle.version, claims).await };
        self.measured(handle, "NodePrepareResources", call).await
    }

    /// Calls `NodeUnprepareResources`.
    ///
    /// # Errors
    /// When the driver cannot be reached or fails.
    pub async fn unprepare(
        &self,
        handle: &DriverHandle,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<()>, DraError> {
        let call = async { self.connection(handle).await?.unprepare(handle.version, claims).await };
        self.measured(handle, "NodeUnprepareResources", call).await
    }

    /// The open connection, or a new one for an instance that was just registered.
    async fn connection(&self, handle: &DriverHandle) -> Result<Arc<dyn DraConnection>, DraError> {
        match &handle.connection {
            Some(connection) => Ok(connection.clone()),
            None => self.connector.connect(&handle.endpoint).await,
        }
    }

    async fn measured<T>(
        &self,
        handle: &DriverHandle,
        method: &str,
        call: impl Future<Output = Result<T, DraError>>,
    ) -> Result<T, DraError> {
        let started = Instant::now();
        let result = call.await;
        let code = result.as_ref().err().map_or("OK", |error| error.code.as_str());
        let method = handle.version.method(method);
        self.metrics.dynamic_resources.called(&handle.driver, &method, code, started.elapsed());
        result
    }

    fn set_connection(&self, driver: &str, endpoint: &Path, connection: Option<Arc<dyn DraConnection>>) {
        let mut instances = self.instances.lock();
        let mut own = instances.iter_mut();
        if let Some(own) = own.find(|own| own.driver == driver && own.endpoint == endpoint) {
            own.connection = connection;
        }
        self.publish(&instances, driver);
    }

    fn publish(&self, instances: &[Instance], driver: &str) {
        let mut own = instances.iter().filter(|instance| instance.driver == driver);
        let is_usable = own.any(|instance| instance.connection.is_some());
        self.usable.send_if_modified(|usable| usable.insert(driver.to_owned(), is_usable) != Some(is_usable));
    }
}

#[async_trait]
impl PluginType for DraDrivers {
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        version(plugin).map(drop)
    }

    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        let version = version(plugin)?;
        let (driver, endpoint) = (plugin.name.clone(), plugin.endpoint.clone());
        let gone = CancellationToken::new();
        let mut instances = self.instances.lock();
        if instances.iter().any(|other| other.driver == driver && other.endpoint == endpoint) {
            let text =
                format!("endpoint {} already registered for DRA driver plugin {driver}", endpoint.display());
            return Err(PluginError(text));
        }
        // Fails only while the agent stops.
        let _ = self.registered.send(Registered {
            driver: driver.clone(),
            endpoint: endpoint.clone(),
            gone: gone.clone(),
        });
        instances.push(Instance { driver: driver.clone(), endpoint, version, connection: None, gone });
        self.publish(&instances, &driver);
        Ok(())
    }

    async fn deregister(&self, plugin: &PluginInfo) {
        let mut instances = self.instances.lock();
        instances.retain(|instance| {
            let is_own = instance.driver == plugin.name && instance.endpoint == plugin.endpoint;
            if is_own {
                instance.gone.cancel();
            }
            !is_own
        });
        self.publish(&instances, &plugin.name);
    }

    /// A registration is not interrupted: it waits for nothing.
    async fn abandon(&self, _: &PluginInfo) {}
}

/// The first service of the plugin's list that the agent can call.
fn version(plugin: &PluginInfo) -> Result<DraVersion, PluginError> {
    let known = |service: &String| DraVersion::ALL.into_iter().find(|version| version.service() == service);
    if let Some(version) = plugin.versions.iter().find_map(known) {
        return Ok(version);
    }
    let quoted = |services: Vec<&str>| {
        let quoted: Vec<_> = services.iter().map(|service| format!("{service:?}")).collect();
        format!("[{}]", quoted.join(" "))
    };
    let reason = if plugin.versions.is_empty() {
        "empty list of supported gRPC services (aka supported versions)".to_owned()
    } else {
        let offered = quoted(plugin.versions.iter().map(String::as_str).collect());
        let callable = quoted(DraVersion::ALL.map(DraVersion::service).to_vec());
        format!(
            "none of services supported by the plugin ({offered}) are supported by the kubelet ({callable})"
        )
    };
    Err(PluginError(format!(
        "invalid supported gRPC versions of DRA driver plugin {} at endpoint {}: {reason}",
        plugin.name,
        plugin.endpoint.display()
    )))
}

/// Keeps a connection to every registered instance until cancelled.
pub async fn run(
    drivers: Arc<DraDrivers>,
    mut registered: mpsc::UnboundedReceiver<Registered>,
    cancel: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(instance) = registered.recv() => {
                let (drivers, cancel) = (drivers.clone(), cancel.clone());
                tasks.spawn(async move {
                    let connected = instance.gone.run_until_cancelled(keep_connected(&drivers, &instance));
                    cancel.run_until_cancelled(connected).await;
                });
            }
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

async fn keep_connected(drivers: &DraDrivers, Registered { driver, endpoint, gone }: &Registered) {
    let mut backoff = Backoff::new(RECONNECT);
    loop {
        match drivers.connector.connect(endpoint).await {
            Ok(connection) => {
                drivers.set_connection(driver, endpoint, Some(connection.clone()));
                // Fails when the health of devices is not shown.
                let _ = drivers.connected.send(Connected {
                    driver: driver.clone(),
                    connection: connection.clone(),
                    gone: gone.clone(),
                });
                connection.closed().await;
                drivers.set_connection(driver, endpoint, None);
                tracing::info!(driver = %driver, "connection to the DRA driver was closed, reconnecting");
                backoff = Backoff::new(RECONNECT);
            }
            Err(error) => {
                tracing::warn!(driver = %driver, %error, "failed to connect to the DRA driver, retrying");
            }
        }
        tokio::time::sleep(backoff.next(random())).await;
    }
}
