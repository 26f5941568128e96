use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(super) struct Limiter {
    per_second: f64,
    burst: f64,
    state: Mutex<(f64, Instant)>,
}

impl Limiter {
    /// A bucket that starts full; a rate of 0 never refuses.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_second: f64::from(per_second), burst, state: Mutex::new((burst, Instant::now())) }
    }

    pub(super) fn take(&self) -> bool {
        if self.per_second == 0.0 {
            return true;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (tokens, at) = *state;
        let filled = (tokens + now.duration_since(at).as_secs_f64() * self.per_second).min(self.burst);
        let granted = filled >= 1.0;
        *state = (if granted { filled - 1.0 } else { filled }, now);
        granted
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_the_rate_counts() {
        let limiter = Limiter::new(5, 10);
        assert_eq!((0..20).filter(|_| limiter.take()).count(), 10);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..20).filter(|_| limiter.take()).count(), 5);
        assert!((0..100).all(|_| Limiter::new(0, 1).take()));
    }
}
