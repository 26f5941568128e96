//! Retry schedule for checkpoint writes that failed, for example because the disk is full.

use std::time::Duration;

use timing::{Backoff, BackoffPolicy, random, sleep_until};
use tokio::time::Instant;

const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

#[derive(Clone, Debug)]
pub(crate) struct SaveRetry {
    backoff: Backoff,
    due: Option<Instant>,
}

impl Default for SaveRetry {
    fn default() -> Self {
        Self { backoff: Backoff::new(BACKOFF), due: None }
    }
}

impl SaveRetry {
    /// Resets the schedule: the newest content is on disk.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Schedules a retry. Returns true for the first failure in a row, so that the caller logs a full disk only once.
    pub(crate) fn failed(&mut self) -> bool {
        self.due = Some(Instant::now() + self.backoff.next(random()));
        self.backoff.failures() == 1
    }

    /// Completes when the retry is due; never, if nothing failed.
    pub(crate) async fn due(&self) {
        sleep_until(self.due).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delay_doubles_up_to_a_minute_and_resets_after_success() {
        let mut retry = SaveRetry::default();
        let mut delays = Vec::new();
        for failure in 0..8 {
            assert_eq!(retry.failed(), failure == 0);
            let started = Instant::now();
            retry.due().await;
            delays.push(started.elapsed().as_secs());
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        retry.succeeded();
        assert!(retry.failed());
    }
}
