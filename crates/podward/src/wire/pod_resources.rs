//! Starts the pod-resources socket.

use std::sync::Arc;

use agent::dynamic_resources::resource_claims::ResourceClaims;
use agent::node::pod_resources::PodResourcesService;

use super::Running;
use super::context::Context;

/// Serves the socket while the agent runs. No pod depends on it, so a failure is only logged.
pub(super) fn start_pod_resources(
    running: &mut Running,
    context: &Context,
    claims: Option<Arc<ResourceClaims>>,
) {
    let socket = context.settings.root_dir.join("pod-resources/kubelet.sock");
    let resources = Arc::new(PodResourcesService {
        desired: context.tables.desired.clone(),
        workers: context.tables.workers.clone(),
        cpus: context.adapters.allocations.cpus().clone(),
        memory: context.adapters.allocations.managed().memory().clone(),
        devices: context.adapters.allocations.managed().devices().clone(),
        claims,
        scope: context.plan.listed,
        metrics: context.adapters.metrics.clone(),
    });
    let cancel = running.cancel.clone();
    running.spawn("pod resources", async move {
        let served = plugins::serve_pod_resources(&socket, resources, cancel.cancelled()).await;
        if let Err(error) = served {
            tracing::error!(error = %anyhow::Error::from(error), "failed to serve the pod-resources socket");
        }
        cancel.cancelled().await;
    });
}
