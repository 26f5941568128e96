//! Clients of the API server, one per lane.

use std::path::{Path, PathBuf};

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Why there is no client. Stops the agent: a node that was told to join a cluster must not run alone.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or says something impossible.
    #[error("kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: KubeconfigError,
    },
    /// The client cannot be made from it.
    #[error("client for {}", path.display())]
    Client {
        /// The file.
        path: PathBuf,
        /// Why.
        source: kube::Error,
    },
}

/// The lanes. A request waits only for requests of its own lane and those before it.
#[derive(Clone)]
pub struct Clients {
    /// The lease; never queued.
    pub heartbeat: Client,
    /// Readiness and ends of pods.
    pub urgent: Client,
    /// Everything else.
    pub main: Client,
    /// Events.
    pub events: Client,
}

impl Clients {
    /// Reads a kubeconfig and makes the clients; no request is sent.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ConnectError> {
        let named = |source| ConnectError::Kubeconfig { path: path.to_owned(), source };
        let file = Kubeconfig::read_from(path).map_err(named)?;
        let config =
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(named)?;
        let client = || {
            Client::try_from(config.clone())
                .map_err(|source| ConnectError::Client { path: path.to_owned(), source })
        };
        Ok(Self { heartbeat: client()?, urgent: client()?, main: client()?, events: client()? })
    }
}
