//! Debouncing of bursts of events.

use std::time::Duration;

use tokio::time::Instant;

use crate::sleep::sleep_until;

/// Waits for a burst of events to end. A burst ends when no event came for `quiet`, and lasts `max` at most.
#[derive(Clone, Copy, Debug)]
pub struct Debounce {
    quiet: Duration,
    max: Duration,
    burst: Option<Burst>,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    first: Instant,
    last: Instant,
}

impl Debounce {
    #[must_use]
    pub const fn new(quiet: Duration, max: Duration) -> Self {
        Self { quiet, max, burst: None }
    }

    /// Notes an event.
    pub fn event(&mut self) {
        let now = Instant::now();
        let first = self.burst.map_or(now, |burst| burst.first);
        self.burst = Some(Burst { first, last: now });
    }

    /// Returns when the burst ends if no more events come; `None` without an event.
    #[must_use]
    pub fn ends_at(&self) -> Option<Instant> {
        self.burst.map(|burst| (burst.last + self.quiet).min(burst.first + self.max))
    }

    /// Waits for the end of the burst, and for ever without one. The next event starts another burst. Safe to drop.
    pub async fn ended(&mut self) {
        sleep_until(self.ends_at()).await;
        self.burst = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn quiet_time_ends_a_burst() {
        let mut debounce = Debounce::new(MILLI * 3, MILLI * 50);
        assert_eq!(debounce.ends_at(), None);
        let started_at = Instant::now();
        for _ in 0..4 {
            debounce.event();
            tokio::time::advance(MILLI * 2).await;
        }
        debounce.ended().await;
        assert_eq!(started_at.elapsed(), MILLI * 9);
        assert_eq!(debounce.ends_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_events_do_not_prolong_a_burst_for_ever() {
        let mut debounce = Debounce::new(MILLI * 3, MILLI * 50);
        let started_at = Instant::now();
        debounce.event();
        loop {
            tokio::select! {
                biased;
                () = debounce.ended() => break,
                () = tokio::time::sleep(MILLI * 2) => debounce.event(),
            }
        }
        assert_eq!(started_at.elapsed(), MILLI * 50);
    }
}
