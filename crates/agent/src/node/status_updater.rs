//! Updates the status of the Node object.

use decide::node::node_status::patch::{has_changed, status_patch};
use decide::node::node_status::schedule::ReportSchedule;
use decide::node::node_status::{NodeStatusInputs, is_ready, updated_node};
use k8s_openapi::api::core::v1::Node;
use ports::api::{ApiError, ApiErrorKind};

use super::NodeDeps;
use super::status_collector::StatusCollector;
use crate::cluster::api_timeout::with_timeout;

/// Attempts before the next period.
const MAX_ATTEMPTS: usize = 5;

pub(super) struct StatusUpdater {
    pub(super) deps: NodeDeps,
    collector: StatusCollector,
    schedule: ReportSchedule,
    /// The node as our last write returned it.
    written: Option<Node>,
    /// Whether the node has been reported as ready since the start.
    pub(super) was_ready: bool,
    /// Whether the status was up to date at least once.
    pub(super) has_reported: bool,
}

impl StatusUpdater {
    pub(super) fn new(deps: NodeDeps) -> Self {
        Self {
            schedule: ReportSchedule::new(deps.settings.report_frequency),
            deps,
            collector: StatusCollector::default(),
            written: None,
            was_ready: false,
            has_reported: false,
        }
    }

    pub(super) async fn collect(&mut self) -> NodeStatusInputs {
        self.collector.collect(&self.deps).await
    }

    /// Records the node as a write returned it.
    pub(super) fn record_write(&mut self, node: Node) {
        if is_ready(&node) {
            self.was_ready = true;
            self.deps.metrics.node_start.ready(self.deps.clock.now());
        }
        self.written = Some(node);
    }

    /// Writes the status if it changed or if the report period has passed.
    pub(super) async fn report(&mut self) {
        let inputs = self.collect().await;
        for attempt in 0..MAX_ATTEMPTS {
            match self.try_report(&inputs, attempt).await {
                Ok(()) => {
                    self.has_reported = true;
                    return;
                }
                // An immediate retry would not help.
                Err(error) if error.retry_after.is_some() || error.kind == ApiErrorKind::NotFound => {
                    return tracing::warn!(%error, "failed to update node status");
                }
                Err(error) if attempt + 1 == MAX_ATTEMPTS => {
                    tracing::warn!(%error, "failed to update node status");
                }
                Err(error) => tracing::debug!(%error, attempt, "failed to update node status, retrying"),
            }
        }
    }

    async fn try_report(&mut self, inputs: &NodeStatusInputs, attempt: usize) -> Result<(), ApiError> {
        let timeout = self.deps.settings.request_timeout;
        let current = match self.newest().filter(|_| attempt == 0) {
            Some(current) => current,
            None => with_timeout(timeout, self.deps.nodes.get()).await?,
        };
        let now = self.deps.clock.now();
        let desired = updated_node(&current, &self.deps.profile, inputs, now);
        let changed = has_changed(&current, &desired.node);
        if !changed && !self.schedule.is_due(now) {
            self.was_ready |= is_ready(&current);
            return Ok(());
        }
        let patch = status_patch(&current, &desired.node);
        let node = with_timeout(timeout, self.deps.nodes.patch_status(&patch)).await?;
        let random = self.deps.random();
        if changed {
            self.schedule.reported_change(now, random);
        } else {
            self.schedule.reported(now, random);
        }
        desired.events.into_iter().for_each(|event| self.deps.record(event));
        if is_ready(&node) != is_ready(&current) {
            tracing::info!(ready = is_ready(&node), problems = ?inputs.problems, "node readiness changed");
        }
        self.record_write(node);
        Ok(())
    }

    /// The newer one of the watched and the written node, because the watch lags behind our writes.
    fn newest(&self) -> Option<Node> {
        let watched = self.deps.view.borrow().node().cloned();
        match (watched, &self.written) {
            (Some(watched), Some(written)) if version(written) > version(&watched) => Some(written.clone()),
            (Some(watched), _) => Some((*watched).clone()),
            (None, written) => written.clone(),
        }
    }
}

/// Resource versions are ordered numbers since Kubernetes 1.35.
fn version(node: &Node) -> Option<u64> {
    node.metadata.resource_version.as_ref()?.parse().ok()
}
