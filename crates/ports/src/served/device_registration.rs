//! The registration of device plugins on the socket of the agent.

use async_trait::async_trait;

/// A registration that a plugin sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRegistration {
    /// Version of the device plugin API.
    pub version: String,
    /// Name of the plugin's socket, in the folder of the agent's socket.
    pub endpoint: String,
    /// Name of the resource, such as `vendor.com/gpu`.
    pub resource: String,
}

/// Accepts registrations.
#[async_trait]
pub trait DeviceRegistry: Send + Sync {
    /// Connects to the plugin. The error goes back to the plugin.
    async fn register(&self, registration: DeviceRegistration) -> Result<(), String>;
}
