//! Limits concurrent writes and backs off while the API server fails.

use std::time::Duration;

use model::StatusUrgency;
use timing::{Backoff, BackoffPolicy, jitter, random};
use tokio::time::Instant;

use super::WriteOutcome;

const MAX_URGENT_WRITES: usize = 16;
const MAX_NORMAL_WRITES: usize = 8;
/// Applies to all pods. Jitter prevents all nodes from retrying at the same time after an outage.
const OUTAGE_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_millis(500), Duration::from_secs(10)).with_jitter(0.5);
/// Applies to one pod whose status the server rejected.
const REJECTION_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(10), Duration::from_secs(300));

/// Writes that share a limit. There is an API client for urgent statuses and one for all other writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteClass {
    Urgent,
    Normal,
}

impl WriteClass {
    pub(super) fn of(urgency: StatusUrgency) -> Self {
        match urgency {
            StatusUrgency::Urgent => Self::Urgent,
            StatusUrgency::Prompt | StatusUrgency::Deferred => Self::Normal,
        }
    }
}

pub(super) struct WriteLimiter {
    urgent: usize,
    normal: usize,
    backoff: Backoff,
    retry_at: Option<Instant>,
}

impl Default for WriteLimiter {
    fn default() -> Self {
        Self { urgent: 0, normal: 0, backoff: Backoff::new(OUTAGE_BACKOFF), retry_at: None }
    }
}

impl WriteLimiter {
    /// Whether another write of this class may start. While the server fails, one write at a time tests whether it has
    /// recovered.
    pub(super) fn has_capacity(&self, class: WriteClass) -> bool {
        if self.backoff.failures() > 0 {
            return self.urgent + self.normal == 0;
        }
        match class {
            WriteClass::Urgent => self.urgent < MAX_URGENT_WRITES,
            WriteClass::Normal => self.normal < MAX_NORMAL_WRITES,
        }
    }

    /// The earliest start of a write that is due at `at`.
    pub(super) fn not_before(&self, at: Instant) -> Instant {
        self.retry_at.map_or(at, |retry_at| at.max(retry_at))
    }

    pub(super) fn start(&mut self, class: WriteClass) {
        *self.running(class) += 1;
    }

    /// Resets both counters after a write task panicked, because the class of its write is unknown.
    pub(super) fn reset_running(&mut self) {
        self.urgent = 0;
        self.normal = 0;
    }

    /// Records the outcome of a write. Returns the start of the backoff of a rejected write.
    pub(super) fn finish(&mut self, class: WriteClass, outcome: &WriteOutcome) -> Option<Instant> {
        let running = self.running(class);
        *running = running.saturating_sub(1);
        let now = Instant::now();
        if matches!(outcome, WriteOutcome::Read(_)) {
            return Some(now);
        }
        if outcome.was_processed() {
            if self.backoff.failures() > 0 {
                tracing::info!("API server accepts status updates again");
            }
            self.backoff.reset();
            self.retry_at = None;
            return Some(now);
        }
        if let WriteOutcome::Failed(error) = outcome {
            let random = random();
            let delay = self.backoff.next(random);
            if self.backoff.failures() == 1 {
                tracing::warn!(%error, "failed to write pod statuses, retrying with backoff");
            }
            let delay = error.retry_after.map_or(delay, |after| jitter(after, OUTAGE_BACKOFF.jitter, random));
            self.retry_at = Some(self.retry_at.map_or(now + delay, |at| at.max(now + delay)));
        }
        None
    }

    fn running(&mut self, class: WriteClass) -> &mut usize {
        match class {
            WriteClass::Urgent => &mut self.urgent,
            WriteClass::Normal => &mut self.normal,
        }
    }
}

/// When a rejected status is written again.
pub(super) fn after_rejection(now: Instant, rejections: u32) -> Instant {
    now + REJECTION_BACKOFF.delay_after(rejections)
}
