//! Brings the Node object's status in line with the node.

use decide::node_status::patch::{has_changed, status_patch};
use decide::node_status::schedule::{ReportSchedule, share};
use decide::node_status::{NodeSight, is_ready, updated};
use k8s_openapi::api::core::v1::Node;
use ports::api::{ApiError, ApiErrorKind};

use super::Parts;
use super::gather::Memory;
use crate::api_deadline::within;

/// Attempts before the next look.
const ATTEMPTS: usize = 5;

/// Writes the status; one at a time.
pub(super) struct Reporter {
    parts: Parts,
    memory: Memory,
    schedule: ReportSchedule,
    /// The newest form of the node that an own write showed.
    written: Option<Node>,
    was_ready: bool,
    has_reported: bool,
}

impl Reporter {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            schedule: ReportSchedule::new(parts.settings.report_frequency),
            parts,
            memory: Memory::default(),
            written: None,
            was_ready: false,
            has_reported: false,
        }
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Whether the API server was told that the node is ready, ever.
    pub(super) fn was_ready(&self) -> bool {
        self.was_ready
    }

    /// Whether the status was in line at least once.
    pub(super) fn has_reported(&self) -> bool {
        self.has_reported
    }

    pub(super) async fn look(&mut self) -> NodeSight {
        self.memory.look(&self.parts).await
    }

    /// An own write showed the node in this form.
    pub(super) fn wrote(&mut self, node: Node) {
        if is_ready(&node) {
            self.was_ready = true;
            self.parts.metrics.node_start.ready(self.parts.clock.now());
        }
        self.written = Some(node);
    }

    /// Looks at the node and tells the API server what is new, or that nothing is when it is time for that.
    pub(super) async fn report(&mut self) {
        let sight = self.look().await;
        for attempt in 0..ATTEMPTS {
            match self.try_to_report(&sight, attempt).await {
                Ok(()) => {
                    self.has_reported = true;
                    return;
                }
                // Asking at once again would make it worse.
                Err(error) if error.retry_after.is_some() || error.kind == ApiErrorKind::NotFound => {
                    return tracing::warn!(%error, "the node's status cannot be told now");
                }
                Err(error) if attempt + 1 == ATTEMPTS => {
                    tracing::warn!(%error, "the node's status cannot be told now");
                }
                Err(error) => tracing::debug!(%error, attempt, "the node's status was not taken"),
            }
        }
    }

    async fn try_to_report(&mut self, sight: &NodeSight, attempt: usize) -> Result<(), ApiError> {
        let deadline = self.parts.settings.deadline;
        let known = match self.newest().filter(|_| attempt == 0) {
            Some(known) => known,
            None => within(deadline, self.parts.nodes.get()).await?,
        };
        let now = self.parts.clock.now();
        let wanted = updated(&known, &self.parts.profile, sight, now);
        let changed = has_changed(&known, &wanted.node);
        if !changed && !self.schedule.is_due(now) {
            self.was_ready |= is_ready(&known);
            return Ok(());
        }
        let patch = status_patch(&known, &wanted.node);
        let node = within(deadline, self.parts.nodes.patch_status(&patch)).await?;
        let share = share(&self.parts.profile.name, now);
        if changed {
            self.schedule.reported_change(now, share);
        } else {
            self.schedule.reported(now, share);
        }
        wanted.events.into_iter().for_each(|event| self.parts.record(event));
        if is_ready(&node) != is_ready(&known) {
            tracing::info!(ready = is_ready(&node), problems = ?sight.problems, "the node's readiness changed");
        }
        self.wrote(node);
        Ok(())
    }

    /// The newer of what was shown and what was written: the watch comes a little after the write.
    fn newest(&self) -> Option<Node> {
        let shown = self.parts.view.borrow().node().cloned();
        match (shown, &self.written) {
            (Some(shown), Some(written)) if version(written) > version(&shown) => Some(written.clone()),
            (Some(shown), _) => Some((*shown).clone()),
            (None, written) => written.clone(),
        }
    }
}

/// Versions of an object can be compared as numbers since Kubernetes 1.35.
fn version(node: &Node) -> Option<u64> {
    node.metadata.resource_version.as_ref()?.parse().ok()
}
