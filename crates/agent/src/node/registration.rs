//! Creates the Node object, or adopts the existing one.

use std::time::Duration;

use decide::node::node_status::patch::status_patch;
use decide::node::node_status::{initial_node, reconcile_node};
use k8s_openapi::api::core::v1::Node;
use ports::api::{ApiError, ApiErrorKind};
use timing::{Backoff, BackoffPolicy};

use super::status_updater::StatusUpdater;
use super::{JITTER, OnForbidden};
use crate::cluster::api_timeout::with_timeout;

const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(200), Duration::from_secs(7)).with_jitter(JITTER);

impl StatusUpdater {
    /// Retries until the node is registered.
    pub(super) async fn register(&mut self) {
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            match self.try_register().await {
                Ok(node) => return self.record_write(node),
                Err(error) => {
                    tracing::warn!(%error, node = %self.deps.profile.name, "failed to register node, retrying");
                    let delay = backoff.next(self.deps.random());
                    tokio::time::sleep(delay.max(error.retry_after.unwrap_or_default())).await;
                }
            }
        }
    }

    async fn try_register(&mut self) -> Result<Node, ApiError> {
        let inputs = self.collect().await;
        let deps = &self.deps;
        let name = &deps.profile.name;
        let (nodes, timeout) = (&deps.nodes, deps.settings.request_timeout);
        deps.metrics.node_start.attempted(deps.clock.now());
        let initial = initial_node(&deps.profile, &inputs, deps.clock.now());
        match with_timeout(timeout, nodes.create(&initial.node)).await {
            Ok(node) => {
                tracing::info!(node = %name, "registered node");
                deps.metrics.node_start.registered(deps.clock.now());
                initial.events.into_iter().for_each(|event| deps.record(event));
                return Ok(node);
            }
            Err(error) if error.kind == ApiErrorKind::AlreadyExists => {}
            // The node may exist although the agent may not create it.
            Err(error)
                if error.kind == ApiErrorKind::Forbidden
                    && deps.settings.on_forbidden == OnForbidden::GetExisting => {}
            Err(error) => return Err(error),
        }
        let existing = with_timeout(timeout, nodes.get()).await?;
        let merged = reconcile_node(&initial.node, &existing, &deps.profile);
        let patch = status_patch(&existing, &merged);
        tracing::info!(node = %name, "adopted existing node");
        // As upstream, every start records the events of the initial status.
        initial.events.into_iter().for_each(|event| deps.record(event));
        if patch == serde_json::json!({}) {
            return Ok(existing);
        }
        with_timeout(timeout, nodes.patch_status(&patch)).await
    }
}
