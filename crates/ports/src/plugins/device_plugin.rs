//! Device plugins: their devices, and the calls that hand devices to containers.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use model::{AllocatedDevices, DeviceOptions, DevicePluginOptions, PluginDevice};

/// A call that failed, with the text that upstream shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DevicePluginError(pub String);

/// Complete lists of devices. An error or the end means that the plugin has stopped.
pub type DeviceLists = BoxStream<'static, Result<Vec<PluginDevice>, DevicePluginError>>;

/// The question which of the free devices a plugin prefers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceQuery {
    /// Devices that may be chosen, including `must_include`.
    pub available: Vec<String>,
    /// Devices that are chosen already.
    pub must_include: Vec<String>,
    /// Number of devices that the container gets.
    pub size: usize,
}

/// Connects to device plugins.
#[async_trait]
pub trait DevicePluginConnector: Send + Sync {
    /// Connects, and reads the options of the plugin.
    async fn connect(&self, socket: &Path) -> Result<Arc<dyn DevicePlugin>, DevicePluginError>;

    /// Reads an answer that a checkpoint stored; `None` when it is damaged.
    fn decode(&self, encoded: &[u8]) -> Option<DeviceOptions>;
}

/// A connection to one device plugin. It is never made again: after it breaks, every call fails. Every call has a deadline.
#[async_trait]
pub trait DevicePlugin: Send + Sync {
    /// The options that the plugin reported when it was connected.
    fn options(&self) -> DevicePluginOptions;

    /// Follows the devices of the plugin.
    async fn watch(&self) -> Result<DeviceLists, DevicePluginError>;

    /// The devices that the plugin prefers; may be empty.
    async fn prefer(&self, query: &PreferenceQuery) -> Result<Vec<String>, DevicePluginError>;

    /// Allocates devices to one container.
    async fn allocate(&self, devices: &[String]) -> Result<AllocatedDevices, DevicePluginError>;

    /// Prepares devices for a start of their container.
    async fn pre_start(&self, devices: &[String]) -> Result<(), DevicePluginError>;
}
