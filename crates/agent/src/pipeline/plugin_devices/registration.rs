//! Registration of device plugins, on the agent's own socket and through the plugin registry.

use std::path::Path;

use async_trait::async_trait;
use decide::devices::is_device_resource;
use futures::StreamExt as _;
use ports::plugins::device_plugin::DevicePlugin;
use ports::plugins::plugin_registry::{PluginError, PluginInfo, PluginType};
use ports::served::device_registration::{DeviceRegistration, DeviceRegistry};

use super::*;

/// The version of the device plugin API.
const API_VERSION: &str = "v1beta1";

/// A plugin whose devices must be followed.
pub struct RegisteredPlugin {
    resource: String,
    number: u64,
    connection: Arc<dyn DevicePlugin>,
    gone: CancellationToken,
}

impl PluginDevices {
    /// Follows the devices of a plugin until it stops or another one replaces it.
    pub async fn follow(self, plugin: RegisteredPlugin) {
        let Some(shared) = &self.shared else { return };
        let RegisteredPlugin { resource, number, connection, gone } = plugin;
        let followed = async {
            let mut lists = connection.watch().await.map_err(|error| error.0)?;
            while let Some(devices) = lists.next().await {
                shared.list(&resource, number, devices.map_err(|error| error.0)?);
            }
            Ok(())
        };
        match gone.run_until_cancelled(followed).await {
            Some(Err::<(), String>(error)) => {
                tracing::warn!(%resource, %error, "device plugin failed, its devices cannot be allocated");
            }
            Some(Ok(())) => tracing::info!(%resource, "device plugin ended its list of devices"),
            None => {}
        }
        shared.disconnect(&resource, number);
    }

    /// When the next stopped plugin is dropped.
    #[must_use]
    pub fn next_drop(&self) -> Option<Instant> {
        self.read(|_, table| {
            let stopped = table.plugins.values().filter_map(|plugin| plugin.stopped_at);
            stopped.min().map(|stopped| stopped + STOPPED_GRACE)
        })
    }

    /// Drops plugins that have stopped long ago.
    pub fn drop_stopped(&self) {
        let Some(shared) = &self.shared else { return };
        let (mut table, now) = (shared.table.lock(), Instant::now());
        let is_due = |plugin: &Plugin| plugin.stopped_at.is_some_and(|at| at + STOPPED_GRACE <= now);
        let due: Vec<String> = table
            .plugins
            .iter()
            .filter(|(_, plugin)| is_due(plugin))
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in due {
            tracing::info!(%resource, "device plugin did not return, dropping its devices");
            table.plugins.remove(&resource);
            table.state.inventory.remove(&resource);
            table.dropped.insert(resource);
            shared.file.mark_changed();
        }
        shared.publish(&table);
    }

    async fn connect(&self, resource: &str, socket: &Path) -> Result<(), String> {
        let Some(shared) = &self.shared else { return Err("device plugins are disabled".to_owned()) };
        let connection = shared.connector.connect(socket).await.map_err(|error| error.0)?;
        let gone = CancellationToken::new();
        let mut table = shared.table.lock();
        table.registrations += 1;
        table.dropped.remove(resource);
        let plugin = Plugin {
            connection: Some(connection.clone()),
            socket: socket.to_owned(),
            number: table.registrations,
            stopped_at: None,
            gone: gone.clone(),
        };
        let number = plugin.number;
        if let Some(replaced) = table.plugins.insert(resource.to_owned(), plugin) {
            replaced.gone.cancel();
        }
        tracing::info!(%resource, socket = %socket.display(), "registered device plugin");
        // Fails only while the agent stops.
        let _ = shared.registered.send(RegisteredPlugin {
            resource: resource.to_owned(),
            number,
            connection,
            gone,
        });
        Ok(())
    }
}

impl Shared {
    fn list(&self, resource: &str, number: u64, devices: Vec<model::PluginDevice>) {
        let owners = {
            let mut table = self.table.lock();
            if table.plugins.get(resource).is_none_or(|plugin| plugin.number != number) {
                return;
            }
            let changed = table.state.inventory.replace(resource, devices);
            self.file.mark_changed();
            self.publish(&table);
            table.state.records.owners(&changed)
        };
        self.notify(&owners);
    }

    /// The end of an earlier plugin does not concern the current one; upstream disconnects that.
    fn disconnect(&self, resource: &str, number: u64) {
        let mut table = self.table.lock();
        let Some(plugin) = table.plugins.get_mut(resource).filter(|plugin| plugin.number == number) else {
            return;
        };
        plugin.stopped_at = Some(Instant::now());
        table.state.inventory.disconnect(resource);
        self.publish(&table);
    }
}

#[async_trait]
impl DeviceRegistry for PluginDevices {
    async fn register(&self, registration: DeviceRegistration) -> Result<(), String> {
        let DeviceRegistration { version, endpoint, resource } = registration;
        let Some(shared) = &self.shared else { return Err("device plugins are disabled".to_owned()) };
        shared.metrics.devices.registered(&resource);
        let checked = if version != API_VERSION {
            Err(format!(
                "requested API version {version:?} is not supported by kubelet. Supported version is [{API_VERSION:?}]"
            ))
        } else if is_device_resource(&resource) {
            Ok(())
        } else {
            Err(format!("the ResourceName {resource:?} is invalid"))
        };
        let registered = match checked {
            Ok(()) => self.connect(&resource, &shared.folder.join(endpoint)).await,
            Err(error) => Err(error),
        };
        registered.inspect_err(|error| tracing::warn!(%resource, %error, "refused a device plugin"))
    }
}

#[async_trait]
impl PluginType for PluginDevices {
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        if !plugin.versions.iter().any(|version| version == API_VERSION) {
            let offered = plugin.versions.join(" ");
            return Err(PluginError(format!(
                "manager version, {API_VERSION}, is not among plugin supported versions [{offered}]"
            )));
        }
        if !is_device_resource(&plugin.name) {
            let name = &plugin.name;
            return Err(PluginError(format!(
                "invalid name of device plugin socket: the ResourceName {name:?} is invalid"
            )));
        }
        Ok(())
    }

    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError> {
        self.connect(&plugin.name, &plugin.endpoint).await.map_err(PluginError)
    }

    async fn deregister(&self, plugin: &PluginInfo) {
        self.read(|_, table| {
            let known = table.plugins.get(&plugin.name).filter(|known| known.socket == plugin.endpoint);
            known.iter().for_each(|known| known.gone.cancel());
        });
    }

    async fn abandon(&self, plugin: &PluginInfo) {
        self.deregister(plugin).await;
    }
}
