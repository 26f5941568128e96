//! Plugins that announce themselves by a socket.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// Such as `CSIPlugin`.
    pub kind: String,
    /// Such as a driver's name.
    pub name: String,
    /// The socket of its own service.
    pub endpoint: PathBuf,
    /// Versions of that service.
    pub versions: Vec<String>,
}

/// A plugin that cannot be reached or registered, in words for its log and ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(pub String);

/// A socket that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginSocket {
    /// Where it is.
    pub path: PathBuf,
    /// Differs when another socket took its place.
    pub identity: (u64, u64, i64),
}

/// What lies below the folder of plugins.
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
    /// What is below the folder of plugins, which is made if missing; names that begin with a dot are left out.
    async fn list(&self) -> Result<PluginFolder, crate::pod_folders::FileError>;

    /// The folder.
    fn folder(&self) -> &Path;
}

/// Talks to a plugin about its registration. Every call has a deadline.
#[async_trait]
pub trait PluginRegistration: Send + Sync {
    /// Who serves this socket.
    async fn get_info(&self, socket: &Path) -> Result<PluginInfo, PluginError>;

    /// Tells the plugin what became of its registration.
    async fn notify(&self, socket: &Path, outcome: Result<(), &str>) -> Result<(), PluginError>;
}

/// One type of plugin, such as CSI drivers.
#[async_trait]
pub trait PluginType: Send + Sync {
    /// Whether a plugin could be taken in, by what it says of itself.
    fn validate(&self, plugin: &PluginInfo) -> Result<(), PluginError>;

    /// Takes in a plugin that was found good. May be called again for the same plugin. A call that fails, or that nobody
    /// waits for any more, leaves no plugin behind.
    async fn register(&self, plugin: &PluginInfo) -> Result<(), PluginError>;

    /// Lets it go: its socket is gone.
    async fn deregister(&self, plugin: &PluginInfo);

    /// Takes back what others may have been told by a registration that was left half-way. Another plugin of that name
    /// that is registered meanwhile stays.
    async fn abandon(&self, plugin: &PluginInfo);
}
