//! When a checkpoint that could not be written is tried again: a full disk may have room later.

use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Waits that grow with each failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct SaveRetry {
    failures: u32,
    due: Option<Instant>,
}

impl SaveRetry {
    /// The newest content is on disk.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It is not. Returns whether that is news: a disk that stays full is told of once.
    pub(crate) fn failed(&mut self) -> bool {
        let wait = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.due = Some(Instant::now() + wait);
        self.failures == 1
    }

    /// Returns when it is time to try again; never, if nothing failed.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_grow_to_a_minute_and_begin_anew_after_a_success() {
        let mut retry = SaveRetry::default();
        let mut waits = Vec::new();
        for failure in 0..8 {
            assert_eq!(retry.failed(), failure == 0);
            let begun = Instant::now();
            retry.due().await;
            waits.push(begun.elapsed().as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        retry.succeeded();
        assert!(retry.failed());
    }
}
