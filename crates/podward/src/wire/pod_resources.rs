//! Wiring of the pod-resources socket.

use std::path::PathBuf;
use std::sync::Arc;

use ports::pod_resources::PodResources;

use super::Running;

/// Serves the socket while the agent runs. Pods do not depend on it: when it cannot be served, that is told, and nothing
/// else ends.
pub(super) fn start_pod_resources(running: &mut Running, socket: PathBuf, holdings: Arc<dyn PodResources>) {
    let cancel = running.cancel.clone();
    running.spawn("pod resources", async move {
        let served = plugins::serve_pod_resources(&socket, holdings, cancel.cancelled()).await;
        if let Err(error) = served {
            tracing::error!(error = %anyhow::Error::from(error), "the pod-resources socket is not served");
        }
        cancel.cancelled().await;
    });
}
