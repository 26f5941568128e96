//! Joins the cluster of `--kubeconfig` and creates the adapters of its API server.

use std::path::Path;
use std::sync::Arc;

use agent::cluster::offline_cache::OfflineCache;
use anyhow::Context;
use cluster::identity::{ClientCertificateManager, IdentityMeters, connect};
use cluster::{
    Clients, CsiNodesAdapter, EventsAdapter, LeasesAdapter, NodesAdapter, ObjectsAdapter,
    PodCertificatesAdapter, PodsAdapter, ReviewsAdapter, RuntimeClassesAdapter, ServiceAccountsAdapter,
    ServicesAdapter, TokensAdapter, TrustBundlesAdapter, VolumesAdapter,
};
use config::{Gate, LoadedConfig};
use host::{HostCsiFolders, HostPluginSockets, SealedCheckpoints};
use plugins::{GrpcCsiConnector, GrpcPluginRegistration};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::trust_bundles::ApiTrustBundles;
use ports::clock::SystemClock;

use crate::plan::identity;
use crate::wire::{ApiServer, PluginPorts};

/// The folder of the offline cache, below the agent's state folder.
const OFFLINE_CACHE: &str = "api";

pub struct Joined {
    pub api: ApiServer,
    /// Renews the client certificate.
    pub upkeep: ClientCertificateManager,
    pub clients: Clients,
}

/// Connects to the cluster of `--kubeconfig`; `None` on a standalone node.
///
/// # Errors
/// When the kubeconfig or the offline cache cannot be used.
pub async fn join(
    loaded: &LoadedConfig,
    node: &str,
    state: &Path,
    meters: IdentityMeters,
) -> anyhow::Result<Option<Joined>> {
    let Some(settings) = identity::identity(loaded, node) else { return Ok(None) };
    let (clients, upkeep) =
        connect(settings, Arc::new(SystemClock), meters).await.context("failed to join the cluster")?;
    let offline_cache = if loaded.flags.offline {
        let store = SealedCheckpoints::open(state.join(OFFLINE_CACHE), state).map_err(|error| {
            anyhow::anyhow!("{error}: {}; --podward-offline=false does without", error.source)
        })?;
        OfflineCache::new(Arc::new(store))
    } else {
        OfflineCache::disabled()
    };
    let reviews = Arc::new(ReviewsAdapter::new(&clients));
    let api = ApiServer {
        offline_cache,
        max_age: Some(loaded.flags.offline_max_age.to_std()).filter(|age| !age.is_zero()),
        nodes: Arc::new(NodesAdapter::new(clients.clone(), node.to_owned())),
        leases: Arc::new(LeasesAdapter::new(&clients, node.to_owned())),
        objects: Arc::new(ObjectsAdapter::new(&clients)),
        events: Arc::new(EventsAdapter::new(&clients, node.to_owned())),
        tokens: Arc::new(TokensAdapter::new(&clients)),
        service_accounts: Arc::new(ServiceAccountsAdapter::new(&clients)),
        trust_bundles: loaded
            .gates
            .enabled(Gate::ClusterTrustBundleProjection)
            .then(|| Arc::new(TrustBundlesAdapter::new(&clients)) as Arc<dyn ApiTrustBundles>),
        pod_certificates: loaded
            .gates
            .enabled(Gate::PodCertificateRequest)
            .then(|| Arc::new(PodCertificatesAdapter::new(&clients)) as Arc<dyn ApiPodCertificates>),
        services: Arc::new(ServicesAdapter::new(&clients)),
        runtime_classes: Arc::new(RuntimeClassesAdapter::new(&clients)),
        volumes: Arc::new(VolumesAdapter::new(clients.clone())),
        plugins: PluginPorts {
            folders: Arc::new(HostCsiFolders::new(&loaded.flags.root_dir)),
            sockets: Arc::new(HostPluginSockets::new(&loaded.flags.root_dir)),
            connector: Arc::new(GrpcCsiConnector),
            registration: Arc::new(GrpcPluginRegistration),
        },
        csi_nodes: Arc::new(CsiNodesAdapter::new(clients.clone(), node.to_owned())),
        token_reviews: reviews.clone(),
        access_reviews: reviews,
        pods: Arc::new(PodsAdapter::new(clients.clone(), node.to_owned())),
    };
    Ok(Some(Joined { api, upkeep, clients }))
}
