//! The entry: sets up and tears down networks of pods, one operation at a time per sandbox.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use timing::{KeyedLock, KeyedLockGuard};

use super::built_in::BuiltInNetwork;
use super::cidr::Cidr;
use super::cni::ConfigFolder;
use super::errors::{NetworkError, NetworkFailure};
use super::request::{LiveAttachment, PodAddresses, PodNetworkRequest};
use super::settings::NetworkSettings;

/// An operation that takes longer hangs in the kernel or in a plugin that cannot be killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// The networks of all pods of a node. Clones share their state.
#[derive(Clone, Debug)]
pub struct PodNetworks {
    built_in: Arc<BuiltInNetwork>,
    configurations: ConfigFolder,
    /// A cancelled caller does not stop its operation, so that the next one of the same sandbox must wait.
    sandboxes: KeyedLock<String>,
}

impl PodNetworks {
    /// Reads the records of earlier processes; makes nothing but folders. Call [`Self::recover`] before the first set-up.
    pub fn open(settings: NetworkSettings) -> Result<Self, NetworkError> {
        let built_in = BuiltInNetwork::open(&settings).map_err(NetworkError::Node)?;
        let configurations = ConfigFolder(settings.cni_config_folder);
        Ok(Self { built_in: Arc::new(built_in), configurations, sandboxes: KeyedLock::default() })
    }

    /// Connects a pod. After an error, nothing of it is left.
    pub async fn set_up(&self, request: &PodNetworkRequest) -> Result<PodAddresses, NetworkError> {
        let failed = |reason| NetworkError::SetUp { pod: request.pod(), reason };
        validate(request).map_err(failed)?;
        self.configurations.check().map_err(failed)?;
        let lock = self.lock(request).await.map_err(failed)?;
        let (built_in, request_to_move) = (Arc::clone(&self.built_in), request.clone());
        let addresses = blocking("set-up", lock, move || set_up(&built_in, &request_to_move)).await;
        let addresses = addresses.map_err(failed)?;
        PodAddresses::from_list(&addresses).ok_or_else(|| failed(NetworkFailure::NoRange))
    }

    /// Disconnects a pod, and removes everything that was made for it. Success if there is nothing, or no namespace any more.
    pub async fn tear_down(&self, request: &PodNetworkRequest) -> Result<(), NetworkError> {
        let failed = |reason| NetworkError::TearDown { pod: request.pod(), reason };
        validate(request).map_err(failed)?;
        let lock = self.lock(request).await.map_err(failed)?;
        let (built_in, sandbox_id) = (Arc::clone(&self.built_in), request.sandbox_id.clone());
        blocking("tear-down", lock, move || built_in.tear_down(&sandbox_id)).await.map_err(failed)
    }

    /// Sets the ranges of new pods' addresses, at most one per family. Pods with other addresses stay connected.
    pub async fn set_pod_cidrs(&self, ranges: Vec<Cidr>) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        let result = blocking("ranges", (), move || built_in.set_ranges(&ranges)).await;
        result.map_err(NetworkError::Node)
    }

    /// Whether pods can be connected; otherwise the reason. Repairs what is missing of the built-in network.
    pub async fn readiness(&self) -> Result<(), String> {
        self.configurations.check().map_err(|failure| NetworkError::Node(failure).to_string())?;
        let built_in = Arc::clone(&self.built_in);
        let result = blocking("readiness", (), move || built_in.prepare_node()).await;
        result.map_err(|failure| NetworkError::Node(failure).to_string())
    }

    /// Removes what sandboxes that no longer exist have left: addresses, host ports, links, rules.
    pub async fn recover(&self, live: &[LiveAttachment]) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        let live: Vec<String> = live.iter().map(|attachment| attachment.sandbox_id.clone()).collect();
        let recover = move || {
            let live: HashSet<&str> = live.iter().map(String::as_str).collect();
            built_in.recover(&live)
        };
        blocking("recovery", (), recover).await.map_err(NetworkError::Node)
    }

    /// Removes what the pods of the node share, unless a pod uses it. The next set-up creates it again.
    pub async fn remove_unused(&self) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        blocking("removal", (), move || built_in.remove_unused()).await.map_err(NetworkError::Node)
    }

    async fn lock(&self, request: &PodNetworkRequest) -> Result<KeyedLockGuard<String>, NetworkFailure> {
        let lock = self.sandboxes.acquire(&request.sandbox_id, LOCK_TIMEOUT).await;
        lock.ok_or(NetworkFailure::Locked)
    }
}

fn set_up(built_in: &BuiltInNetwork, request: &PodNetworkRequest) -> Result<Vec<IpAddr>, NetworkFailure> {
    let attachment = built_in.admit(request)?;
    built_in.set_up(attachment).inspect_err(|_| {
        // The error of the set-up counts; recovery removes what is left.
        let _ = built_in.tear_down(&request.sandbox_id);
    })
}

/// Runs `work` to its end, also if the caller stops waiting; `guard` is dropped afterwards.
async fn blocking<T: Send + 'static>(
    what: &'static str,
    guard: impl Send + 'static,
    work: impl FnOnce() -> Result<T, NetworkFailure> + Send + 'static,
) -> Result<T, NetworkFailure> {
    let work = move || {
        let _guard = guard;
        work()
    };
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(NetworkFailure::Panicked(what)))
}

/// The values become parts of records and of arguments of plugins.
fn validate(request: &PodNetworkRequest) -> Result<(), NetworkFailure> {
    let words = [
        ("sandbox id", &request.sandbox_id),
        ("pod name", &request.name),
        ("pod namespace", &request.namespace),
        ("pod UID", &request.uid),
    ];
    for (field, value) in words {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        // Configuration sources give static pods UIDs of any form.
        let is_required = field != "pod UID";
        if (is_required && value.is_empty()) || value.len() > 256 || !value.bytes().all(is_allowed) {
            let reason = "not a name of letters, digits, hyphens, underscores and dots";
            return Err(NetworkFailure::Invalid { field, value: value.clone(), reason });
        }
    }
    Ok(())
}
