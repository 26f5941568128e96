//! How many writes are made at once, and when to leave the API server alone.

use std::time::Duration;

use model::Timestamp;
use ports::api::pods::Urgency;
use tokio::time::Instant;

use super::Ended;

/// Writes at once, by lane.
const URGENT_AT_ONCE: usize = 16;
const NORMAL_AT_ONCE: usize = 8;
/// Waits while the server does not answer: doubling.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Waits after a refusal of one pod's status: doubling.
const FIRST_REFUSAL: Duration = Duration::from_secs(10);
const LONGEST_REFUSAL: Duration = Duration::from_secs(300);

/// The pace of all writes.
#[derive(Default)]
pub(super) struct Pace {
    urgent: usize,
    normal: usize,
    /// Failures since the server last answered.
    failures: u32,
    pause_until: Option<Instant>,
}

impl Pace {
    /// Whether another write of this lane may begin. While the server does not answer, one at a time finds out
    /// whether it is back.
    pub(super) fn has_room(&self, lane: Urgency) -> bool {
        if self.failures > 0 {
            return self.urgent + self.normal == 0;
        }
        match lane {
            Urgency::Urgent => self.urgent < URGENT_AT_ONCE,
            Urgency::Normal => self.normal < NORMAL_AT_ONCE,
        }
    }

    /// The earliest time for something that is due at `at`.
    pub(super) fn not_before(&self, at: Instant) -> Instant {
        self.pause_until.map_or(at, |until| at.max(until))
    }

    pub(super) fn begun(&mut self, lane: Urgency) {
        *self.lane(lane) += 1;
    }

    /// A write broke off without a result; which lane it was in is unknown, so both start anew.
    pub(super) fn lost(&mut self) {
        self.urgent = 0;
        self.normal = 0;
    }

    /// Takes the end of a write; says from when on a refused one may count its wait.
    pub(super) fn ended(&mut self, lane: Urgency, ended: &Ended, wall: Timestamp) -> Option<Instant> {
        let running = self.lane(lane);
        *running = running.saturating_sub(1);
        let now = Instant::now();
        if matches!(ended, Ended::Seen(_)) {
            return Some(now);
        }
        if ended.is_answered() {
            if std::mem::take(&mut self.failures) > 0 {
                tracing::info!("the API server takes statuses again");
            }
            self.pause_until = None;
            return Some(now);
        }
        if let Ended::Failed(error) = ended {
            self.failures = self.failures.saturating_add(1);
            if self.failures == 1 {
                tracing::warn!(%error, "statuses cannot be written to the API server; they are delivered later");
            }
            let own = FIRST_WAIT.saturating_mul(1 << (self.failures - 1).min(8)).min(LONGEST_WAIT);
            // The clock's nanoseconds spread the nodes of a cluster that lost its server at the same time.
            let spread = f64::from(u32::try_from(wall.as_nanos().rem_euclid(1_000)).unwrap_or(0)) / 2_000.0;
            let wait = error.retry_after.unwrap_or(own).mul_f64(1.0 + spread);
            self.pause_until = Some(self.pause_until.map_or(now + wait, |until| until.max(now + wait)));
        }
        None
    }

    fn lane(&mut self, lane: Urgency) -> &mut usize {
        match lane {
            Urgency::Urgent => &mut self.urgent,
            Urgency::Normal => &mut self.normal,
        }
    }
}

/// When a refused status is tried again.
pub(super) fn after_refusal(now: Instant, refusals: u32) -> Instant {
    now + FIRST_REFUSAL.saturating_mul(1 << refusals.saturating_sub(1).min(8)).min(LONGEST_REFUSAL)
}
