//! Pauses between failures.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Pauses that double up to a longest one, each with up to a half more so that many watches do not fall together.
#[derive(Clone, Debug)]
pub(crate) struct Pauses {
    first: Duration,
    longest: Duration,
    made: u32,
    seed: RandomState,
}

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, made: 0, seed: RandomState::new() }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.first.saturating_mul(1 << self.made.min(16)).min(self.longest);
        let spread = self.seed.hash_one(self.made) % 1000;
        self.made = self.made.saturating_add(1);
        Some(pause + pause.mul_f64(f64::from(u32::try_from(spread).unwrap_or(0)) / 2000.0))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.made = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_a_half_more_at_most_and_begin_anew() {
        let mut pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(30));
        for base in [100, 200, 400, 800, 1600] {
            let pause = pauses.next().unwrap().as_millis();
            assert!((base..=base * 3 / 2).contains(&pause), "{pause} after {base}");
        }
        assert!(pauses.nth(50).unwrap() >= Duration::from_secs(30));
        pauses.reset();
        assert!(pauses.next().unwrap() <= Duration::from_millis(150));
    }
}
