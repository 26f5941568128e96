//! How many requests may be sent.

use std::time::Duration;

use tokio::time::Instant;

/// A rate limit: so many requests in a second on average, and so many at once after a quiet time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in a second.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

impl Rate {
    /// From `kubeAPIQPS` and `kubeAPIBurst`. Zero means the Go client's own default, as upstream.
    #[must_use]
    pub fn of_requests(per_second: i32, burst: i32) -> Self {
        let or =
            |value: i32, default| u32::try_from(value).ok().filter(|value| *value > 0).unwrap_or(default);
        Self { per_second: or(per_second, 5), burst: or(burst, 10) }
    }

    /// From `eventRecordQPS` and `eventBurst`. Zero means no limit.
    #[must_use]
    pub fn of_events(per_second: i32, burst: i32) -> Option<Self> {
        (per_second > 0).then(|| Self::of_requests(per_second, burst))
    }
}

/// A [`Rate`] and what is left of it.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: Rate,
    tokens: f64,
    counted_at: Instant,
}

impl TokenBucket {
    pub(crate) fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, tokens: f64::from(rate.burst), counted_at: now }
    }

    /// Takes a token, or says how long it takes until there is one.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let per_second = f64::from(self.rate.per_second.max(1));
        let gained = now.saturating_duration_since(self.counted_at).as_secs_f64() * per_second;
        self.tokens = (self.tokens + gained).min(f64::from(self.rate.burst.max(1)));
        self.counted_at = self.counted_at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up: a sleep of the exact time may end a nanosecond before the token is whole.
        Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second) + Duration::from_micros(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_rates() {
        let rate = |per_second, burst| Rate { per_second, burst };
        for (given, requests, events) in [
            ((50, 100), rate(50, 100), Some(rate(50, 100))),
            ((0, 0), rate(5, 10), None),
            ((0, 7), rate(5, 7), None),
            ((3, 0), rate(3, 10), Some(rate(3, 10))),
        ] {
            assert_eq!(Rate::of_requests(given.0, given.1), requests, "{given:?}");
            assert_eq!(Rate::of_events(given.0, given.1), events, "{given:?}");
        }
    }

    /// Milliseconds since the start, and whether a token is to be had then.
    type Steps = &'static [(u64, bool)];

    #[test]
    fn tokens_are_given_by_rate_and_burst() {
        let cases: [(&str, Rate, Steps); 3] = [
            (
                "a burst, then one each tenth of a second",
                Rate { per_second: 10, burst: 2 },
                &[(0, true), (0, true), (0, false), (99, false), (101, true), (102, false), (202, true)],
            ),
            (
                "a quiet time fills the bucket, not more",
                Rate { per_second: 10, burst: 2 },
                &[(0, true), (0, true), (60_000, true), (60_000, true), (60_000, false)],
            ),
            (
                "a clock that stands still or goes back gives nothing",
                Rate { per_second: 1, burst: 1 },
                &[(5, true), (5, false), (3, false), (1004, false), (1006, true)],
            ),
        ];
        let start = Instant::now();
        for (name, rate, steps) in cases {
            let mut bucket = TokenBucket::full(rate, start);
            for (at, given) in steps {
                let taken = bucket.take(start + Duration::from_millis(*at));
                assert_eq!(taken.is_ok(), *given, "{name}: at {at} ms: {taken:?}");
            }
        }
    }

    #[test]
    fn the_wait_is_exactly_long_enough() {
        let start = Instant::now();
        for rate in [
            Rate { per_second: 1, burst: 1 },
            Rate { per_second: 3, burst: 5 },
            Rate { per_second: 50, burst: 1 },
        ] {
            let mut bucket = TokenBucket::full(rate, start);
            while bucket.take(start).is_ok() {}
            let wait = bucket.take(start).unwrap_err();
            let just_before = start + wait - Duration::from_micros(100);
            assert!(bucket.take(just_before).is_err(), "{rate:?} {wait:?}");
            assert_eq!(bucket.take(start + wait), Ok(()), "{rate:?} {wait:?}");
        }
    }
}
