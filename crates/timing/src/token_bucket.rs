//! Rate limits.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket that does not wait: callers pass the current time. It fills with `per_second` tokens up to `burst`, and
/// starts full. A burst below one token, or a rate that is not positive, would never give a token: both are raised to the
/// least value that does.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    refilled_at: Instant,
}

impl TokenBucket {
    #[must_use]
    pub fn full(per_second: f64, burst: f64, now: Instant) -> Self {
        let burst = burst.max(1.0);
        Self { per_second: per_second.max(f64::MIN_POSITIVE), burst, tokens: burst, refilled_at: now }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The time until one is available.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let gained = now.saturating_duration_since(self.refilled_at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.refilled_at = self.refilled_at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up: a sleep of the exact time may end a nanosecond before the token is complete.
        let wait = Duration::try_from_secs_f64((1.0 - self.tokens) / self.per_second);
        Err(wait.unwrap_or(Duration::MAX).saturating_add(Duration::from_micros(1)))
    }
}

/// A shared [`TokenBucket`] that refuses at once.
#[derive(Debug)]
pub struct RateLimiter {
    bucket: Mutex<TokenBucket>,
}

impl RateLimiter {
    #[must_use]
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { bucket: Mutex::new(TokenBucket::full(per_second, burst, Instant::now())) }
    }

    /// Takes a token. False if none is available.
    pub fn try_acquire(&self) -> bool {
        self.bucket.lock().take(Instant::now()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds since the start, and whether a token is available at that time.
    type Steps = &'static [(u64, bool)];

    #[test]
    fn hands_out_tokens_by_rate_and_burst() {
        let cases: [(&str, (f64, f64), Steps); 4] = [
            (
                "a burst, then one every 100 ms",
                (10.0, 2.0),
                &[(0, true), (0, true), (0, false), (99, false), (101, true), (102, false), (202, true)],
            ),
            (
                "an idle period fills the bucket up to the burst",
                (10.0, 2.0),
                &[(0, true), (0, true), (60_000, true), (60_000, true), (60_000, false)],
            ),
            (
                "a clock that stops or goes back adds no tokens",
                (1.0, 1.0),
                &[(5, true), (5, false), (3, false), (1004, false), (1006, true)],
            ),
            ("a burst of zero is one", (1.0, 0.0), &[(0, true), (0, false), (1001, true)]),
        ];
        let start = Instant::now();
        for (name, (per_second, burst), steps) in cases {
            let mut bucket = TokenBucket::full(per_second, burst, start);
            for (at, expected_ok) in steps {
                let taken = bucket.take(start + Duration::from_millis(*at));
                assert_eq!(taken.is_ok(), *expected_ok, "{name}: at {at} ms: {taken:?}");
            }
        }
    }

    #[test]
    fn returned_wait_is_exact() {
        let start = Instant::now();
        for (per_second, burst) in [(1.0, 1.0), (3.0, 5.0), (50.0, 1.0), (0.5, 1.0)] {
            let mut bucket = TokenBucket::full(per_second, burst, start);
            while bucket.take(start).is_ok() {}
            let wait = bucket.take(start).unwrap_err();
            let just_before = start + wait - Duration::from_micros(100);
            assert!(bucket.take(just_before).is_err(), "{per_second} {wait:?}");
            assert_eq!(bucket.take(start + wait), Ok(()), "{per_second} {wait:?}");
        }
    }

    #[test]
    fn rate_of_zero_gives_the_burst_and_no_more() {
        let start = Instant::now();
        let mut bucket = TokenBucket::full(0.0, 1.0, start);
        assert_eq!(bucket.take(start), Ok(()));
        assert_eq!(bucket.take(start + Duration::from_secs(1 << 30)), Err(Duration::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn limiter_refuses_after_the_burst_until_tokens_are_refilled() {
        let limiter = RateLimiter::new(5.0, 10.0);
        assert_eq!((0..20).filter(|_| limiter.try_acquire()).count(), 10);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..20).filter(|_| limiter.try_acquire()).count(), 5);
    }
}
