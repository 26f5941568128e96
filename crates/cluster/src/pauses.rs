//! Pauses between failures.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

/// How long after a pause nothing must have failed for the next failure to count as a first one.
const CALM: Duration = Duration::from_secs(5);

/// Pauses that double up to a longest one, each with up to a half more so that many watches do not fall together. They
/// begin anew after a while without failures, not after a success: a server that lists and then breaks every watch
/// would be asked without end.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    made: u32,
    /// When the last pause was over.
    over: Option<Instant>,
    seed: RandomState,
}

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, made: 0, over: None, seed: RandomState::new() }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.over.is_none_or(|over| now.saturating_duration_since(over) > CALM) {
            self.made = 0;
        }
        let pause = self.first.saturating_mul(1 << self.made.min(16)).min(self.longest);
        let spread = self.seed.hash_one(self.made) % 1000;
        self.made = self.made.saturating_add(1);
        let pause = pause + pause.mul_f64(f64::from(u32::try_from(spread).unwrap_or(0)) / 2000.0);
        self.over = Some(now + pause);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_with_a_half_more_at_most_and_begin_anew() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        for base in [100, 200, 400, 800, 1600] {
            let pause = pauses.next().unwrap();
            assert!((base..=base * 3 / 2).contains(&pause.as_millis()), "{pause:?} after {base}");
            tokio::time::advance(pause).await;
            // What went well in between does not count, only how long it did.
            pauses.reset();
        }
        assert!(pauses.nth(50).unwrap() >= Duration::from_secs(30));
        tokio::time::advance(Duration::from_secs(46) + CALM).await;
        assert!(pauses.next().unwrap() <= Duration::from_millis(150));
    }
}
