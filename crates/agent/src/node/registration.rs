//! Makes the Node object, or takes over the one that exists.

use std::time::Duration;

use decide::node_status::patch::status_patch;
use decide::node_status::{initial_node, reconciled};
use k8s_openapi::api::core::v1::Node;
use ports::api::{ApiError, ApiErrorKind};

use super::Forbidden;
use super::reporter::Reporter;
use crate::api_deadline::within;

/// First and longest wait between attempts.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(7);

impl Reporter {
    /// Tries until the API server knows the node.
    pub(super) async fn register(&mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            match self.try_to_register().await {
                Ok(node) => return self.wrote(node),
                Err(error) => {
                    tracing::warn!(%error, node = %self.parts().profile.name, "the node cannot be registered yet");
                    let pause = self.parts().spread(wait).max(error.retry_after.unwrap_or_default());
                    tokio::time::sleep(pause).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    async fn try_to_register(&mut self) -> Result<Node, ApiError> {
        let sight = self.look().await;
        let parts = self.parts();
        let name = &parts.profile.name;
        let (nodes, deadline) = (&parts.nodes, parts.settings.deadline);
        parts.metrics.node_start.attempted(parts.clock.now());
        let initial = initial_node(&parts.profile, &sight, parts.clock.now());
        match within(deadline, nodes.create(&initial.node)).await {
            Ok(node) => {
                tracing::info!(node = %name, "the node is registered");
                parts.metrics.node_start.registered(parts.clock.now());
                initial.events.into_iter().for_each(|event| parts.record(event));
                return Ok(node);
            }
            Err(error) if error.kind == ApiErrorKind::AlreadyExists => {}
            // Who may not make nodes may still own one.
            Err(error)
                if error.kind == ApiErrorKind::Forbidden
                    && parts.settings.forbidden == Forbidden::LookFor => {}
            Err(error) => return Err(error),
        }
        let existing = within(deadline, nodes.get()).await?;
        let mended = reconciled(&initial.node, &existing, &parts.profile);
        let patch = status_patch(&existing, &mended);
        tracing::info!(node = %name, "the node was registered before");
        // An agent that starts tells how it finds the node, whatever was told before.
        initial.events.into_iter().for_each(|event| parts.record(event));
        if patch == serde_json::json!({}) {
            return Ok(existing);
        }
        within(deadline, nodes.patch_status(&patch)).await
    }
}
