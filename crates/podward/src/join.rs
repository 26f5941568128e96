//! Joins the cluster of `--kubeconfig` and creates the adapter of its API server.

use std::path::Path;
use std::sync::Arc;

use agent::cluster::offline_cache::OfflineCache;
use agent::dynamic_resources::{device_health, resource_claims};
use anyhow::Context;
use cluster::identity::{ClientCertificateManager, IdentityMeters, connect};
use cluster::{ApiServerAdapter, Clients};
use config::{Gate, LoadedConfig};
use host::{HostCsiFolders, SealedCheckpoints, StateFiles};
use plugins::{GrpcCsiConnector, GrpcDraConnector};
use ports::api::pod_certificates::ApiPodCertificates;
use ports::api::trust_bundles::ApiTrustBundles;
use ports::clock::SystemClock;

use crate::plan::identity;
use crate::wire::{ApiServer, DynamicResourcePorts, PluginPorts};

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
    let files = StateFiles::new(&loaded.flags.root_dir);
    let restored = resource_claims::restore(&files).await?;
    let restored_health = device_health::restore(&files).await;
    let server = Arc::new(ApiServerAdapter::new(clients.clone(), node.to_owned()));
    let api = ApiServer {
        offline_cache,
        max_age: Some(loaded.flags.offline_max_age.to_std()).filter(|age| !age.is_zero()),
        nodes: server.clone(),
        leases: server.clone(),
        objects: server.clone(),
        events: server.clone(),
        tokens: server.clone(),
        service_accounts: server.clone(),
        trust_bundles: loaded
            .gates
            .enabled(Gate::ClusterTrustBundleProjection)
            .then(|| server.clone() as Arc<dyn ApiTrustBundles>),
        pod_certificates: loaded
            .gates
            .enabled(Gate::PodCertificateRequest)
            .then(|| server.clone() as Arc<dyn ApiPodCertificates>),
        services: server.clone(),
        runtime_classes: server.clone(),
        volumes: server.clone(),
        plugins: PluginPorts {
            folders: Arc::new(HostCsiFolders::new(&loaded.flags.root_dir)),
            connector: Arc::new(GrpcCsiConnector),
        },
        dynamic_resources: DynamicResourcePorts {
            api: server.clone(),
            connector: Arc::new(GrpcDraConnector),
            restored,
            restored_health,
        },
        csi_nodes: server.clone(),
        token_reviews: server.clone(),
        access_reviews: server.clone(),
        pods: server,
    };
    Ok(Some(Joined { api, upkeep, clients }))
}
