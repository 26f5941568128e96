//! The entry: sets up and tears down networks of pods, one operation at a time per sandbox.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use timing::{KeyedLock, KeyedLockGuard};

use super::built_in::BuiltInNetwork;
use super::cidr::Cidr;
use super::cni::CniNetworks;
use super::cni::config::NetworkConfig;
use super::errors::{NetworkError, NetworkFailure};
use super::namespaces::bring_up_loopback_at;
use super::request::{LiveAttachment, PodAddresses, PodNetworkRequest};
use super::settings::NetworkSettings;

/// An operation that takes longer hangs in the kernel or in a plugin that cannot be killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// The networks of all pods of a node. Clones share their state.
#[derive(Clone, Debug)]
pub struct PodNetworks {
    built_in: Arc<BuiltInNetwork>,
    cni: Arc<CniNetworks>,
    /// Kernel operations of a cancelled caller continue, so that the next one of the same sandbox must wait.
    sandboxes: KeyedLock<String>,
}

impl PodNetworks {
    /// Reads the records of earlier processes; makes nothing but folders. Call [`Self::recover`] before the first set-up.
    #[expect(clippy::needless_pass_by_value, reason = "the caller has no further use for the settings")]
    pub fn open(settings: NetworkSettings) -> Result<Self, NetworkError> {
        let built_in = BuiltInNetwork::open(&settings).map_err(NetworkError::Node)?;
        let cni = CniNetworks::open(&settings).map_err(NetworkError::Node)?;
        Ok(Self { built_in: Arc::new(built_in), cni: Arc::new(cni), sandboxes: KeyedLock::default() })
    }

    /// Connects a pod. After an error, nothing of it is left, or what is left has a record for [`Self::tear_down`].
    pub async fn set_up(&self, request: &PodNetworkRequest) -> Result<PodAddresses, NetworkError> {
        let failed = |reason| NetworkError::SetUp { pod: request.pod(), reason };
        validate(request).map_err(failed)?;
        let lock = self.lock(request).await.map_err(failed)?;
        let addresses = match self.cni.configuration().map_err(failed)? {
            Some(network) => self.add(&network, request).await,
            None => {
                let (built_in, cni, request) =
                    (Arc::clone(&self.built_in), Arc::clone(&self.cni), request.clone());
                blocking("set-up", lock, move || connect(&built_in, &cni, &request)).await
            }
        };
        let addresses = addresses.map_err(failed)?;
        PodAddresses::from_list(&addresses).ok_or_else(|| failed(NetworkFailure::NoRange))
    }

    /// Disconnects a pod, and removes everything that was made for it. Success if there is nothing, or no namespace any more.
    pub async fn tear_down(&self, request: &PodNetworkRequest) -> Result<(), NetworkError> {
        let failed = |reason| NetworkError::TearDown { pod: request.pod(), reason };
        validate(request).map_err(failed)?;
        let lock = self.lock(request).await.map_err(failed)?;
        // A pod keeps the network that it was set up with, also after a change of the configuration.
        let deleted = self.cni.delete(&request.sandbox_id).await;
        let (built_in, sandbox_id) = (Arc::clone(&self.built_in), request.sandbox_id.clone());
        let disconnected = blocking("tear-down", lock, move || built_in.tear_down(&sandbox_id)).await;
        deleted.and(disconnected).map_err(failed)
    }

    /// Whether a pod's network is still as CNI plugins have made it. The built-in network needs no check: readiness repairs it.
    pub async fn check(&self, request: &PodNetworkRequest) -> Result<(), NetworkError> {
        let failed = |reason| NetworkError::Check { pod: request.pod(), reason };
        validate(request).map_err(failed)?;
        let _lock = self.lock(request).await.map_err(failed)?;
        self.cni.check(&request.sandbox_id).await.map_err(failed)
    }

    /// Sets the ranges of new pods' addresses, at most one per family. Pods with other addresses stay connected.
    pub async fn set_pod_cidrs(&self, ranges: Vec<Cidr>) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        let result = blocking("ranges", (), move || built_in.set_ranges(&ranges)).await;
        result.map_err(NetworkError::Node)
    }

    /// Whether pods can be connected; otherwise the reason. Repairs what is missing of the built-in network.
    pub async fn readiness(&self) -> Result<(), String> {
        let result = match self.cni.configuration() {
            Err(failure) => Err(failure),
            Ok(Some(network)) => self.cni.status(&network).await,
            Ok(None) => {
                let built_in = Arc::clone(&self.built_in);
                blocking("readiness", (), move || built_in.prepare_node()).await
            }
        };
        result.map_err(|failure| NetworkError::Node(failure).to_string())
    }

    /// Removes what sandboxes that no longer exist have left: addresses, host ports, links, rules and what CNI plugins have made.
    pub async fn recover(&self, live: &[LiveAttachment]) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        let ids: Vec<String> = live.iter().map(|attachment| attachment.sandbox_id.clone()).collect();
        let recover = move || built_in.recover(&ids.iter().map(String::as_str).collect());
        let recovered = blocking("recovery", (), recover).await;
        let live: HashSet<&str> = live.iter().map(|attachment| attachment.sandbox_id.as_str()).collect();
        let collected = self.cni.collect_garbage(&live).await;
        recovered.and(collected).map_err(NetworkError::Node)
    }

    /// Removes what the pods of the node share, unless a pod uses it. The next set-up creates it again.
    pub async fn remove_unused(&self) -> Result<(), NetworkError> {
        let built_in = Arc::clone(&self.built_in);
        blocking("removal", (), move || built_in.remove_unused()).await.map_err(NetworkError::Node)
    }

    async fn add(
        &self,
        network: &NetworkConfig,
        request: &PodNetworkRequest,
    ) -> Result<Vec<IpAddr>, NetworkFailure> {
        let id = &request.sandbox_id;
        if self.built_in.has(id)? || self.cni.has(id)? {
            return Err(NetworkFailure::AlreadySetUp);
        }
        let netns = request.netns.clone();
        blocking("lo", (), move || bring_up_loopback_at(&netns)).await?;
        let added = self.cni.add(network, request, &self.built_in.current_ranges()).await;
        if added.is_err() {
            // The error of the addition counts. If the deletion fails as well, its record remains.
            let _ = self.cni.delete(id).await;
        }
        added
    }

    async fn lock(&self, request: &PodNetworkRequest) -> Result<KeyedLockGuard<String>, NetworkFailure> {
        let lock = self.sandboxes.acquire(&request.sandbox_id, LOCK_TIMEOUT).await;
        lock.ok_or(NetworkFailure::Locked)
    }
}

fn connect(
    built_in: &BuiltInNetwork,
    cni: &CniNetworks,
    request: &PodNetworkRequest,
) -> Result<Vec<IpAddr>, NetworkFailure> {
    if cni.has(&request.sandbox_id)? {
        return Err(NetworkFailure::AlreadySetUp);
    }
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
        let is_required = field == "sandbox id";
        if (is_required && value.is_empty()) || value.len() > 256 || !value.bytes().all(is_allowed) {
            let reason = "not a name of letters, digits, hyphens, underscores and dots";
            return Err(NetworkFailure::Invalid { field, value: value.clone(), reason });
        }
    }
    Ok(())
}
