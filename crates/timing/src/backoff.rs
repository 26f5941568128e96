//! Exponential backoff.

use std::time::Duration;

use crate::jitter::jitter;

/// How delays between retries grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The delay after the first failure.
    pub initial: Duration,
    /// Each further failure multiplies the delay by this, at least 1.
    pub factor: f64,
    /// The longest delay, before jitter.
    pub cap: Duration,
    /// The largest random part that is added to a delay, as a fraction of it.
    pub jitter: f64,
    /// A failure that comes later than this after the last one counts as the first.
    pub reset_after: Option<Duration>,
}

impl BackoffPolicy {
    /// Delays that double from `initial` to `cap`, without jitter.
    #[must_use]
    pub const fn doubling(initial: Duration, cap: Duration) -> Self {
        Self { initial, factor: 2.0, cap, jitter: 0.0, reset_after: None }
    }

    #[must_use]
    pub const fn with_factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    #[must_use]
    pub const fn with_jitter(self, fraction: f64) -> Self {
        Self { jitter: fraction, ..self }
    }

    #[must_use]
    pub const fn with_reset_after(self, quiet: Duration) -> Self {
        Self { reset_after: Some(quiet), ..self }
    }

    /// Returns the delay after so many failures in a row, before jitter. None counts as one.
    #[must_use]
    pub fn delay_after(&self, failures: u32) -> Duration {
        let mut delay = self.initial.min(self.cap);
        for _ in 1..failures {
            let next = self.grow(delay);
            if next == delay {
                break;
            }
            delay = next;
        }
        delay
    }

    /// Returns the delay that follows `delay`, before jitter.
    #[must_use]
    pub fn grow(&self, delay: Duration) -> Duration {
        let grown = Duration::try_from_secs_f64(delay.as_secs_f64() * self.factor);
        grown.unwrap_or(self.cap).max(delay).min(self.cap)
    }

    /// Whether `quiet`, the time since the last failure, is so long that the next failure counts as the first.
    #[must_use]
    pub fn is_reset_after(&self, quiet: Duration) -> bool {
        self.reset_after.is_some_and(|limit| quiet > limit)
    }
}

/// The failures of one operation in a row, and the delay before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
    delay: Duration,
}

impl Backoff {
    #[must_use]
    pub const fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: 0, delay: Duration::ZERO }
    }

    /// Counts a failure and returns the delay before the next attempt. `random` is a number from 0 to 1; a policy
    /// without jitter ignores it.
    pub fn next(&mut self, random: f64) -> Duration {
        self.delay = match self.failures {
            0 => self.policy.delay_after(1),
            _ => self.policy.grow(self.delay),
        };
        self.failures = self.failures.saturating_add(1);
        jitter(self.delay, self.policy.jitter, random)
    }

    /// As [`Backoff::next`], for a failure that comes `quiet` after the last delay was over.
    pub fn next_after(&mut self, quiet: Duration, random: f64) -> Duration {
        if self.policy.is_reset_after(quiet) {
            self.reset();
        }
        self.next(random)
    }

    /// The operation succeeded.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last reset.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_secs(3));

    fn millis(backoff: &mut Backoff, count: usize) -> Vec<u128> {
        (0..count).map(|_| backoff.next(1.0).as_millis()).collect()
    }

    #[test]
    fn delays_double_to_the_cap_and_start_over_after_a_reset() {
        let mut backoff = Backoff::new(POLICY);
        assert_eq!(millis(&mut backoff, 7), [100, 200, 400, 800, 1600, 3000, 3000]);
        assert_eq!(backoff.failures(), 7);
        backoff.reset();
        assert_eq!(backoff.failures(), 0);
        assert_eq!(millis(&mut backoff, 2), [100, 200]);
    }

    #[test]
    fn other_factors_grow_as_they_state() {
        let by_half = POLICY.with_factor(1.5);
        assert_eq!(millis(&mut Backoff::new(by_half), 4), [100, 150, 225, 337]);
        let by_eight = BackoffPolicy::doubling(Duration::from_millis(30), Duration::MAX).with_factor(8.0);
        assert_eq!(millis(&mut Backoff::new(by_eight), 5), [30, 240, 1920, 15_360, 122_880]);
    }

    #[test]
    fn jitter_is_added_on_top_of_the_cap_and_does_not_accumulate() {
        let mut backoff = Backoff::new(POLICY.with_jitter(0.5));
        assert_eq!(millis(&mut backoff, 7), [150, 300, 600, 1200, 2400, 4500, 4500]);
    }

    #[test]
    fn long_quiet_time_resets() {
        let mut backoff = Backoff::new(POLICY.with_reset_after(Duration::from_secs(5)));
        millis(&mut backoff, 3);
        assert_eq!(backoff.next_after(Duration::from_secs(5), 0.0).as_millis(), 800);
        assert_eq!(backoff.next_after(Duration::from_millis(5001), 0.0).as_millis(), 100);
        let mut without = Backoff::new(POLICY);
        millis(&mut without, 1);
        assert_eq!(without.next_after(Duration::MAX, 0.0).as_millis(), 200);
    }

    #[test]
    fn delay_after_many_failures_is_the_cap() {
        assert_eq!(POLICY.delay_after(0), POLICY.initial);
        assert_eq!(POLICY.delay_after(u32::MAX), POLICY.cap);
        let huge = BackoffPolicy::doubling(Duration::from_secs(1), Duration::MAX);
        assert_eq!(huge.delay_after(u32::MAX), Duration::MAX);
        let constant = POLICY.with_factor(1.0);
        assert_eq!(constant.delay_after(u32::MAX), POLICY.initial);
    }

    fn policies() -> impl Strategy<Value = BackoffPolicy> {
        (0u64..100_000, 0u64..10_000_000, 1.0f64..10.0, 0.0f64..=1.0).prop_map(
            |(initial, cap, factor, jitter)| {
                BackoffPolicy::doubling(Duration::from_millis(initial), Duration::from_millis(cap))
                    .with_factor(factor)
                    .with_jitter(jitter)
            },
        )
    }

    proptest! {
        #[test]
        fn delay_never_exceeds_the_cap_plus_jitter(
            policy in policies(),
            randoms in proptest::collection::vec(0.0f64..=1.0, 1..40),
        ) {
            let mut backoff = Backoff::new(policy);
            let max = policy.cap.mul_f64(1.0 + policy.jitter) + Duration::from_micros(1);
            for random in randoms {
                prop_assert!(backoff.next(random) <= max);
            }
        }

        #[test]
        fn delays_without_jitter_never_shrink(policy in policies(), count in 1usize..40) {
            let mut backoff = Backoff::new(policy);
            let delays: Vec<Duration> = (0..count).map(|_| backoff.next(0.0)).collect();
            prop_assert!(delays.is_sorted(), "{delays:?}");
            let failures = u32::try_from(count).unwrap();
            prop_assert_eq!(delays.last().copied(), Some(policy.delay_after(failures)));
        }

        #[test]
        fn reset_returns_to_the_initial_delay(policy in policies(), count in 0usize..40) {
            let mut backoff = Backoff::new(policy);
            for _ in 0..count {
                backoff.next(0.5);
            }
            backoff.reset();
            prop_assert_eq!(backoff.next(0.0), policy.initial.min(policy.cap));
        }
    }
}
