//! Registration of plugins by a socket.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// A plugin's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// Such as `CSIPlugin`.
    pub kind: String,
    /// Such as a driver's name.
    pub name: String,
    /// The socket of its service.
    pub endpoint: PathBuf,
    /// Versions of that service.
    pub versions: Vec<String>,
}

/// Why a plugin cannot be reached or registered, for its log and ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(pub String);

/// A socket that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginSocket {
    /// Path of the socket.
    pub path: PathBuf,
    /// Device, inode and change time; differs after the socket was replaced.
    pub identity: (u64, u64, i64),
}

/// The content of the plugin folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFolder {
    /// Sockets at any depth.
    pub sockets: Vec<PluginSocket>,
    /// Folders below it.
    pub folders: Vec<PathBuf>,
}

/// Finds the sockets of plugins.
#[async_trait]
pub trait PluginSockets: Send + Sync {
    /// Lists the plugin folder, and creates it if missing. Names that begin with a dot are left out.
    async fn list(&self) -> Result<PluginFolder, crate::host::pod_folders::FileError>;

    /// The folder.
    fn folder(&self) -> &Path;
}

/// Talks to a plugin about its registration. Every call has a deadline.
#[async_trait]
pub trait PluginRegistration: Send + Sync {
    /// Reads the description of the plugin at a socket.
    async fn get_info(&self, socket: &Path) -> Result<PluginInfo, PluginError>;

    /// Reports the result of the registration to the plugin.
    async fn notify(&self, socket: &Path, outcome: Result<(), &str>) -> Result<(), PluginError>;
}

/// One type of plugin, such as CSI drivers.
#[async_trait]
pub trait PluginType: Send + Sync {
    /// Checks the description of a plugin.
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError>;

    /// Registers a validated plugin. May be called again for the same plugin. A call that fails or is cancelled leaves no
    /// registration.
    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError>;

    /// Deregisters a plugin whose socket was removed.
    async fn deregister(&self, plugin: &PluginInfo);

    /// Undoes a registration that was interrupted. Keeps another plugin of the same name that was registered meanwhile.
    async fn abandon(&self, plugin: &PluginInfo);
}
