//! Rate limit of image pulls.

use timing::RateLimiter;

/// `None` for no limit.
#[derive(Debug)]
pub(super) struct PullRateLimiter(Option<RateLimiter>);

impl PullRateLimiter {
    /// The bucket starts full. A rate of 0 means no limit.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self((per_second > 0).then(|| RateLimiter::new(per_second.into(), burst.into())))
    }

    pub(super) fn try_acquire(&self) -> bool {
        self.0.as_ref().is_none_or(RateLimiter::try_acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn allows_burst_and_then_limits_rate() {
        let limiter = PullRateLimiter::new(5, 10);
        assert_eq!((0..20).filter(|_| limiter.try_acquire()).count(), 10);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..20).filter(|_| limiter.try_acquire()).count(), 5);
        assert!((0..100).all(|_| PullRateLimiter::new(0, 1).try_acquire()));
    }
}
