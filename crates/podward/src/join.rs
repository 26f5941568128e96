//! From `--kubeconfig` to the adapters of the API server.

use std::path::Path;
use std::sync::Arc;

use agent::memory::Memory;
use anyhow::Context;
use cluster::identity::{Meters, Upkeep, connect};
use cluster::{
    Clients, CsiNodesAdapter, EventsAdapter, LeasesAdapter, NodesAdapter, ObjectsAdapter,
    PodCertificatesAdapter, PodsAdapter, ReviewsAdapter, RuntimeClassesAdapter, ServiceAccountsAdapter,
    ServicesAdapter, TokensAdapter, TrustBundlesAdapter, VolumesAdapter,
};
use config::{Gate, Loaded};
use host::{HostCsiFolders, HostPluginSockets, SealedCheckpoints};
use plugins::{GrpcCsiConnector, GrpcPluginRegistration};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::trust_bundles::ApiTrustBundles;
use ports::clock::SystemClock;

use crate::identity_plan;
use crate::wire::{ApiServer, PluginPorts};

/// The folder of what the API server said, below the agent's state.
const MEMORY: &str = "api";

/// A cluster that was joined.
pub struct Joined {
    /// The adapters.
    pub api: ApiServer,
    /// What keeps the node's identity good.
    pub upkeep: Upkeep,
    /// The clients below the adapters.
    pub clients: Clients,
}

/// The cluster that the agent was told to join, and what keeps its identity good; `None` means a node of its own.
///
/// # Errors
/// When the kubeconfig or the store of what the API server said cannot be used.
pub async fn join(
    loaded: &Loaded,
    node: &str,
    state: &Path,
    meters: Meters,
) -> anyhow::Result<Option<Joined>> {
    let Some(settings) = identity_plan::identity(loaded, node) else { return Ok(None) };
    let (clients, upkeep) =
        connect(settings, Arc::new(SystemClock), meters).await.context("joining the cluster")?;
    let memory = if loaded.flags.offline {
        let store = SealedCheckpoints::open(state.join(MEMORY), state).map_err(|error| {
            anyhow::anyhow!("{error}: {}; --podward-offline=false does without", error.source)
        })?;
        Memory::new(Arc::new(store))
    } else {
        Memory::off()
    };
    let reviews = Arc::new(ReviewsAdapter::new(&clients));
    let api = ApiServer {
        memory,
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
