//! Starts the socket of the Pods API.

use std::sync::Arc;

use agent::node::pod_watch::PodTables;

use super::Running;
use super::context::Context;

/// Serves the socket while the agent runs. No pod depends on it, so a failure is only logged.
pub(super) fn start_pods_api(running: &mut Running, context: &Context) {
    if !context.plan.serves_pods {
        return;
    }
    let socket = context.settings.root_dir.join("pods-api/pods-api.sock");
    let tables =
        PodTables { desired: context.tables.desired.clone(), statuses: context.tables.statuses.clone() };
    let cancel = running.cancel.clone();
    running.spawn("pods API", async move {
        let served = plugins::serve_pods(&socket, Arc::new(tables), cancel.cancelled()).await;
        if let Err(error) = served {
            tracing::error!(error = %anyhow::Error::from(error), "failed to serve the socket of the Pods API");
        }
        cancel.cancelled().await;
    });
}
