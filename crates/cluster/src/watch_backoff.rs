//! Backoff of watches.

use std::time::Duration;

use timing::{Backoff, BackoffPolicy, random};
use tokio::time::Instant;

/// Time without failures after which the backoff resets.
const RESET_AFTER: Duration = Duration::from_secs(5);

/// Delays that double up to a maximum, plus up to 50 % jitter so that watches do not retry at the same time. They reset
/// after a time without failures, not after a success: a server that answers lists and then breaks every watch would
/// otherwise be queried in a tight loop.
#[derive(Clone, Debug)]
pub(crate) struct WatchBackoff {
    backoff: Backoff,
    /// End of the last delay.
    delay_ended_at: Option<Instant>,
}

impl WatchBackoff {
    pub(crate) fn new(initial: Duration, cap: Duration) -> Self {
        let policy = BackoffPolicy::doubling(initial, cap).with_jitter(0.5).with_reset_after(RESET_AFTER);
        Self { backoff: Backoff::new(policy), delay_ended_at: None }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let quiet = self.delay_ended_at.map_or(Duration::ZERO, |ended| now.saturating_duration_since(ended));
        let delay = self.backoff.next_after(quiet, random());
        self.delay_ended_at = Some(now + delay);
        Some(delay)
    }
}

impl kube::runtime::utils::Backoff for WatchBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use kube::runtime::utils::Backoff as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_with_jitter_and_resets() {
        let mut backoff = WatchBackoff::new(Duration::from_millis(100), Duration::from_secs(30));
        for base in [100, 200, 400, 800, 1600] {
            let delay = backoff.next().unwrap();
            assert!((base..=base * 3 / 2).contains(&delay.as_millis()), "{delay:?} after {base}");
            tokio::time::advance(delay).await;
            // A success in between does not reset the backoff.
            backoff.reset();
        }
        assert!(backoff.nth(50).unwrap() >= Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(46) + RESET_AFTER).await;
        assert!(backoff.next().unwrap() <= Duration::from_millis(150));
    }
}
