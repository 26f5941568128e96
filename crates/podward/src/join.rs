//! From `--kubeconfig` to the adapters of the API server.

use std::sync::Arc;

use anyhow::Context;
use cluster::{Clients, LeasesAdapter, NodesAdapter, PodsAdapter};
use config::Loaded;

use crate::wire::ApiServer;

/// The cluster that the agent was told to join; `None` means a node of its own.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn join(loaded: &Loaded, node: &str) -> anyhow::Result<Option<ApiServer>> {
    let Some(kubeconfig) = &loaded.flags.kubeconfig else { return Ok(None) };
    let clients = Clients::from_kubeconfig(kubeconfig).await.context("--kubeconfig")?;
    Ok(Some(ApiServer {
        nodes: Arc::new(NodesAdapter::new(clients.clone(), node.to_owned())),
        leases: Arc::new(LeasesAdapter::new(&clients, node.to_owned())),
        pods: Arc::new(PodsAdapter::new(clients, node.to_owned())),
    }))
}
